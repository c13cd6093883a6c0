"""Whether the trial that a worker trains should go on: asked again whenever it has logged something."""

from __future__ import annotations

from pathlib import Path

from headtohead.studying.cells import Cell
from headtohead.studying.sweeping.outcomes import logged
from headtohead.studying.sweeping.planning import Sweeper


class Judge:
    """By Hyperband, from what all trials of the sweep have logged by now, here or on other machines."""

    def __init__(self, sweeper: Sweeper) -> None:
        self._sweeper = sweeper
        self._sizes: dict[str, int] = {}

    def __call__(self, cell: Cell, folder: Path) -> str | None:
        hyperband = self._sweeper.sweep.hyperband
        if hyperband is None or not self._has_news(cell, folder):
            return None
        steps, own = logged(folder, self._sweeper.sweep.metric)
        if not steps or steps[-1] >= cell.config["trainer"]["max_steps"]:
            return None
        plan = self._sweeper.plan
        all_of_them = [logged(plan.run_folder(other), plan.sweep.metric)[1] for other in plan.cells]
        return hyperband.against(own, all_of_them, larger_is_better=plan.sweep.larger_is_better)

    def _has_news(self, cell: Cell, folder: Path) -> bool:
        file = folder / "metrics.csv"
        size = file.stat().st_size if file.is_file() else 0
        before, self._sizes[cell.id] = self._sizes.get(cell.id, 0), size
        return size != before
