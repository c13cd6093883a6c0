"""The floors of the package, drawn from the layers in pyproject.toml. `python tests/floors.py` puts the drawing into
ARCHITECTURE.md again."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
OPENING, CLOSING = "```text\n", "```\n"
WIDTH = 78
"""Characters inside the frame."""


def layers() -> list[list[str]]:
    """Return the packages of each floor, from the top."""
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (result,) = [one["layers"] for one in config["tool"]["importlinter"]["contracts"] if one["type"] == "layers"]
    return [[name.strip(" ()").removeprefix("headtohead.") for name in floor.split("|")] for floor in result]


def drawing() -> str:
    """Return a frame with a line for each floor, its packages side by side."""
    return "\n".join(_lines(layers())) + "\n"


def _lines(floors: Sequence[Sequence[str]]) -> Iterator[str]:
    edge = f"+{'-' * WIDTH}+"
    yield edge
    for floor in floors:
        room = (WIDTH - len(floor) + 1) // len(floor)
        line = "|".join(f" {name}".ljust(room) for name in floor)
        yield f"|{line.ljust(WIDTH)}|"
        yield edge


def drawn(page: str) -> str:
    """Return the page with the drawing of today."""
    before, _, rest = page.partition(OPENING)
    _, _, after = rest.partition(CLOSING)
    return f"{before}{OPENING}{drawing()}{CLOSING}{after}"


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
