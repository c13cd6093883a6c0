"""A cache of their own for tests that prepare data."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def prepared_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def own_cache(prepared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(prepared_data))
