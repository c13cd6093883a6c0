"""The working folder that the tests of doors share; it is built once for all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from damage import snapshot
from workplace import build

from doors import DOORS
from headtohead.cli import main

Files = dict[Path, bytes]


@pytest.fixture(scope="session")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Files]]:
    """Where it is and what is in it; caches of data lie beside it, and are filled, so that a case is quick."""
    folder, before = tmp_path_factory.mktemp("doors") / "work", Path.cwd()
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(folder.parent / "cache"))
        os.chdir(folder)
        try:
            build()
            files = snapshot()
            for doors in DOORS.values():
                for door in doors:
                    main(list(door.arguments))
        finally:
            os.chdir(before)
    yield folder, files


@pytest.fixture
def inside(workplace: tuple[Path, Files], monkeypatch: pytest.MonkeyPatch) -> Files:
    """What belongs into the working folder, which this test is in."""
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(workplace[0].parent / "cache"))
    monkeypatch.chdir(workplace[0])
    return workplace[1]
