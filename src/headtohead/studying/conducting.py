"""A study from its plan to its last run: workers are started and watched, what failed may be tried again."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headtohead.files.leases import Leases
from headtohead.files.leftovers import sweep
from headtohead.studying.cells import Cell
from headtohead.studying.launcher import Command, Ended, Launcher
from headtohead.studying.planning import Plan
from headtohead.studying.registering import register
from headtohead.studying.running import ended_record, record_of
from headtohead.studying.work import Planned, Work

_POLL_SECONDS = 0.5
_ABANDONED_SECONDS = 3600.0
"""The age from which on an unfinished file is one that a killed process left."""
RETRIED = ("failed", "out_of_memory")


@dataclass(frozen=True)
class Standing:
    """How far one run is, from nothing, 0, to its end, 1."""

    cell: Cell
    status: str
    share: float
    is_done: bool = False


class Watch:
    """The standing of every run; one that is done is not looked at again, and more follow where the plan is open."""

    def __init__(self, plan: Work, cells: Sequence[Cell], again: Planned | None = None) -> None:
        self.plan, self.cells, self._again = plan, cells, again
        self._done: dict[Cell, Standing] = {}

    def look(self) -> list[Standing]:
        found = self._found()
        if self._again is not None and self.plan.is_open and all(standing.is_done for standing in found):
            self.plan, self.cells = self._again()
            found = self._found()
        return found

    def _found(self) -> list[Standing]:
        found = [self._done.get(cell) or self._standing(cell) for cell in self.cells]
        self._done = {standing.cell: standing for standing in found if standing.is_done}
        return found

    def _standing(self, cell: Cell) -> Standing:
        record = record_of(self.plan.run_folder(cell))
        if record is None:
            return Standing(cell, "missing", 0.0)
        if ended_record(self.plan.run_folder(cell)) is not None:
            return Standing(cell, record.status, 1.0, is_done=True)
        return Standing(cell, record.status, record.progress.step / max(1, cell.config["trainer"]["max_steps"]))


def conduct(
    watch: Watch, launcher: Launcher, commands: Sequence[Command], tell: Callable[[list[Standing]], None]
) -> list[Ended]:
    """Until every command has ended; they end by themselves when nothing is left that they could do."""
    ended: list[Ended] = []
    try:
        launcher.submit(commands)
        while launcher.is_busy:
            ended += launcher.ended()
            tell(watch.look())
            if launcher.is_busy:
                time.sleep(_POLL_SECONDS)
    finally:
        launcher.stop()
    return ended


def prepare(plan: Plan, *, retry: bool) -> None:
    """Before the first worker starts: the design is written down; failed runs are forgotten where that is wished."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    sweep(plan.folder, older_than=_ABANDONED_SECONDS)
    register(plan)
    if retry:
        forget_failed(plan, plan.cells)


def forget_failed(plan: Work, cells: Sequence[Cell]) -> None:
    """So that they begin anew; what is being run is left alone."""
    leases = Leases(plan.folder / "leases")
    for cell in cells:
        folder = plan.run_folder(cell)
        record = record_of(folder)
        if record is None or record.status not in RETRIED:
            continue
        if (lease := leases.take(cell.id)) is not None:
            shutil.rmtree(folder)
            lease.give_back()
