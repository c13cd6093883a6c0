"""ARCHITECTURE.md shows the floors that import-linter holds."""

from __future__ import annotations

from pathlib import Path

import headtohead
from floors import PAGE, drawn, layers


def test_the_page_draws_the_floors_of_today() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page == drawn(page), "the floors have changed: run python tests/floors.py"


def test_every_package_stands_on_a_floor() -> None:
    packages = {file.parent.name for file in Path(headtohead.__file__).parent.glob("*/__init__.py")}
    assert len(packages) > 5
    assert packages - {name for floor in layers() for name in floor} == set()
