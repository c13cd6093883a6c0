"""The working folder that the tests of doors share; it is built once for all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from doors.damage import restore, snapshot
from doors.workplace import build

Files = dict[Path, bytes]


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Files]]:
    """Return the workplace and its files; caches of data lie beside it."""
    folder, before = tmp_path_factory.mktemp("doors") / "work", Path.cwd()
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(folder.parent / "cache"))
        os.chdir(folder)
        try:
            build()
            files = snapshot()
        finally:
            os.chdir(before)
    yield folder, files


@pytest.fixture
def inside(workplace: tuple[Path, Files], monkeypatch: pytest.MonkeyPatch) -> Files:
    """Return the files of the working folder, in which this test runs, as they were before any other test."""
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(workplace[0].parent / "cache"))
    monkeypatch.chdir(workplace[0])
    restore(workplace[1])
    return workplace[1]
