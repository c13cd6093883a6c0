"""Runs that W&B's agents have begun, as trials of their sweep: what each tried is read from its configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

from headtohead.building.errors import show
from headtohead.building.overrides import key_of
from headtohead.comparing.trials import Setting, Value
from headtohead.studying.cells import Cell
from headtohead.studying.conducting import Standing, Watch
from headtohead.studying.sweeping.handed import GROUP
from headtohead.studying.sweeping.outcomes import Outcome, outcome_of
from headtohead.studying.sweeping.planning import SweepPlan, SweptRun
from headtohead.studying.sweeping.sweep import Sweep
from headtohead.tracking.record import RunRecord
from headtohead.tracking.store import DIED, scan, slug
from headtohead.tracking.wandb_sweeps import RegisteredSweep


@dataclass(frozen=True)
class BegunRun(SweptRun):
    """A trial that an agent began."""

    path: Path = Path()
    status: str = "running"
    share: float = 0.0
    """Of its steps."""

    @property
    def command(self) -> str:
        return f"h2h train --from-run {os.path.relpath(self.path)}"


@dataclass(frozen=True)
class AgentsPlan(SweepPlan):
    """What agents of one folder have done of a sweep."""

    runs: Path = Path()
    method_words = "searched by W&B's server"

    def run_folder(self, cell: Cell) -> Path:
        return self.runs / cell.id


class Agents(Watch):
    """What the agents of one folder have begun, looked at again and again."""

    def __init__(self, sweep: Sweep, registered: RegisteredSweep, config: Mapping[str, Any]) -> None:
        self._sweep, self._registered = sweep, registered
        outputs = Path(config["output_dir"]).absolute()
        named = config["group"] if any(key_of(text) == "group" for text in sweep.overrides()) else None
        self.runs = outputs / slug(named or GROUP.format(registered.id))
        self.folder = outputs / "sweeps" / slug(f"{sweep.name}-{registered.id}")
        """Of their logs, and of the page."""

    def look(self) -> list[Standing]:
        return [
            Standing(trial.cell, trial.status, trial.share, is_done=trial.status != "running")
            for trial in self.now().trials
            if isinstance(trial, BegunRun) and trial.cell is not None
        ]

    @property
    def num_runs(self) -> int:
        """At most, those of other machines among them."""
        sizes = [len(entry.points or ()) for entry in self._sweep.swept.values()]
        caps = [prod(sizes)] if self._sweep.method == "grid" else []
        return min([*caps, *([self._sweep.run_cap] if self._sweep.run_cap else [])])

    def num_unrecorded(self) -> int:
        """Runs that were refused, or failed before they began."""
        recorded = {record.wandb.id for record in (scan(self.runs) if self.runs.is_dir() else [])}
        return len(self._registered.runs_begun_below(self.folder) - recorded)

    def now(self) -> AgentsPlan:
        ours = self._registered.runs_begun_below(self.folder)
        records = [record for record in scan(self.runs) if record.wandb.id in ours] if self.runs.is_dir() else []
        records.sort(key=lambda record: record.timing.started or "")
        trials = tuple(_trial(self._sweep, number, record) for number, record in enumerate(records))
        outcomes = {
            trial.number: _outcome(record, trial.path, self._sweep)
            for trial, record in zip(trials, records, strict=True)
            if record.status != "running"
        }
        return AgentsPlan(self._sweep, trials, self.folder, outcomes, runs=self.runs)


def _trial(sweep: Sweep, number: int, record: RunRecord) -> BegunRun:
    assert record.path is not None, "it was read from there"
    cell = Cell(sweep.name, record.seed, (), record.config, record.id, trial=number)
    setting = Setting(tuple((key, _value(record.config, key)) for key in sweep.swept))
    share = 1.0 if record.status != "running" else record.progress.step / max(1, record.config["trainer"]["max_steps"])
    return BegunRun(number, setting, cell, path=record.path, status=record.status, share=share)


def _outcome(record: RunRecord, folder: Path, sweep: Sweep) -> Outcome:
    """Whose process died was not ended by anybody."""
    outcome = outcome_of(record, folder, sweep)
    return replace(outcome, status="interrupted") if record.reason == DIED else outcome


def _value(config: Mapping[str, Any], key: str) -> Value:
    """What the run has there, be it a group or a field."""
    found: Any = config["choices"] if key in config["choices"] else config
    for name in [key] if found is config["choices"] else key.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return show(found) if isinstance(found, list | dict) else found
