"""W&B's own step of every row: it says what the row is, so that of a run that was killed at any moment each row is told
once, whatever the server already has.

W&B keeps rows by this number and lets it only grow. A count of calls would not do: a server may hold the losses of a
step and not the validation that was under way, and a resumed run tells again what comes after its checkpoint.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

Medium = Literal["numbers", "pictures", "tables"]
_PER_STEP, _PER_ROUND = 100, 16
_PLACES: dict[tuple[Medium, str], int] = {
    ("numbers", "train"): 0,
    ("numbers", "attention"): 1,
    ("pictures", "attention"): 2,
    ("numbers", "validation"): 3,
    ("tables", "validation"): 4,
    ("pictures", "validation"): 5,
    ("tables", "test"): 6,
    ("pictures", "test"): 7,
    ("numbers", "test"): 8,
    ("numbers", "longer tests"): 9,
}
"""In the order in which they come to pass within a step."""


class RowNumbers:
    """Gives rows their numbers; a row that the server holds, or that was told already, gets none."""

    def __init__(self, first_free: int = 0) -> None:
        self._held, self._last = first_free - 1, -1
        self._step = -1
        self._told: set[str] = set()

    def take(self, step: int, names: Collection[str], place: int) -> int | None:
        """Call it with all names of a row, in the order in which a run tells them."""
        if step != self._step:
            self._step, self._told = step, set()
        if self._told.issuperset(names):
            return None
        self._told.update(names)
        number = usual_number(step, place)
        while number <= self._last:  # maps that are drawn at the end come after the validation of their step
            number += _PER_ROUND
        self._last = number
        return None if number <= self._held else number


def usual_number(step: int, place: int) -> int:
    """Return the number of a row that comes in the usual order."""
    return step * _PER_STEP + place


def in_rows(values: Mapping[str, Any], medium: Medium = "numbers") -> dict[int, dict[str, Any]]:
    """What is logged together, as rows by their place in the step: the same rows, however the values were gathered."""
    rows: dict[int, dict[str, Any]] = {}
    for name, value in values.items():
        rows.setdefault(_place(name, medium), {})[name] = value
    return rows


def _place(name: str, medium: Medium) -> int:
    section = name.partition("/")[0]
    if section.startswith("attention"):
        section = "attention"
    elif section.startswith("test") and section != "test":
        section = "longer tests"
    return _PLACES.get((medium, section), 0 if medium == "numbers" else 7)
