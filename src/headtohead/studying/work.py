"""What workers need to know of a plan: its runs may be those of a study, or the trials of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from headtohead.studying.cells import Cell


class Work(Protocol):
    """Runs below one folder."""

    @property
    def folder(self) -> Path:
        """Of leases, logs and runs."""

    @property
    def is_open(self) -> bool:
        """Whether more runs follow from how those known end."""

    @property
    def budget_name(self) -> str | None:
        """What the records of the runs say about their budget."""

    def run_folder(self, cell: Cell) -> Path:
        """Where a run leaves its record."""


Planned = Callable[[], tuple[Work, Sequence[Cell]]]
"""Plans anew, and says which runs are one's own."""
Stops = Callable[[Cell, Path], str | None]
"""Why a run that is being trained into a folder should end now, if it should."""
