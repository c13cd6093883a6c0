"""From a sweep to its trials: each a run with an id made of what decides its result, checked beforehand."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headtohead.building.content import run_id
from headtohead.building.errors import ConfigurationError
from headtohead.building.overrides import key_of
from headtohead.comparing.trials import Setting, Trial
from headtohead.studying.cells import Cell, name_of
from headtohead.studying.composing import Composer
from headtohead.studying.running import ended_record
from headtohead.studying.sweeping.checking import (
    check_alone,
    check_metric,
    check_parameters,
    refuse_several_devices,
)
from headtohead.studying.sweeping.outcomes import Outcome, outcome_of
from headtohead.studying.sweeping.searching import as_tried, proposals
from headtohead.studying.sweeping.sweep import Sweep

REFUSED = "refused"
"""The status of a trial whose setting Bayesian search found, and no run can have."""

_METHODS = {
    "grid": "every combination",
    "random": "drawn at random",
    "bayes": "Bayesian search by Optuna's tree-structured Parzen estimator, four trials at a time",
}


@dataclass(frozen=True)
class SweptRun:
    """A trial: what is tried, and the run that tries it."""

    number: int
    setting: Setting
    cell: Cell | None
    """None where no run can be so."""
    refusal: str | None = None

    @property
    def command(self) -> str:
        """Which makes the run again."""
        return f"h2h train {shlex.join(self.cell.overrides if self.cell is not None else ())}"


@dataclass(frozen=True)
class SweepPlan:
    """The trials known by now."""

    sweep: Sweep
    trials: tuple[SweptRun, ...]
    folder: Path
    """outputs/sweeps/NAME."""
    outcomes: Mapping[int, Outcome] = field(default_factory=dict)
    """Of the trials that have ended, by number."""
    is_open: bool = False
    """Whether more follow from how these end."""

    budget_name = None

    @property
    def method_words(self) -> str:
        return _METHODS[self.sweep.method]

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Settings that come to the same are one run."""
        return tuple({trial.cell.id: trial.cell for trial in self.trials if trial.cell is not None}.values())

    @property
    def refused(self) -> tuple[SweptRun, ...]:
        """Trials that no run can be, each with its reason."""
        return tuple(trial for trial in self.trials if trial.cell is None)

    @property
    def num_runs(self) -> int:
        """Of the whole sweep, those not known yet among them."""
        cap = self.sweep.run_cap
        return cap if self.is_open and cap is not None else len(self.cells)

    def run_folder(self, cell: Cell) -> Path:
        return self.folder / "runs" / cell.id


class Sweeper:
    """Plans a sweep again and again, as trials end."""

    def __init__(self, sweep: Sweep, config_dir: str | Path | None = None) -> None:
        self.sweep = sweep
        self._config_dir = config_dir
        self._composer = Composer(config_dir)
        check_parameters(sweep, config_dir)
        self.folder: Path | None = None
        self.plan = self._planned()
        self._check_values()
        check_metric(sweep, [trial.cell.config for trial in self.plan.trials if trial.cell is not None])

    def again(self) -> tuple[SweepPlan, Sequence[Cell]]:
        """By the records of the trials."""
        self.plan = self._planned()
        return self.plan, self.plan.cells

    def _planned(self) -> SweepPlan:
        trials: list[SweptRun] = []
        outcomes: dict[int, Outcome] = {}
        tried: list[Trial] = []
        while asked := proposals(self.sweep, tried):
            batch = [self._trial(len(tried) + place, setting) for place, setting in enumerate(asked)]
            trials += batch
            ended = [self._ended(trial) for trial in batch]
            outcomes |= {trial.number: found for trial, found in zip(batch, ended, strict=True) if found is not None}
            if len(outcomes) < len(trials):
                return self._plan(trials, outcomes, is_open=self._has_more(len(trials)))
            tried += [
                Trial(trial.number, setting, found.status, found.value)
                for trial, setting, found in zip(batch, asked, ended, strict=True)
                if found is not None
            ]
        return self._plan(trials, outcomes, is_open=False)

    def _plan(self, trials: Sequence[SweptRun], outcomes: Mapping[int, Outcome], *, is_open: bool) -> SweepPlan:
        if self.folder is None:
            first = trials[0]
            raise ConfigurationError(f"sweep {self.sweep.name}, {first.setting.words}: {first.refusal}")
        return SweepPlan(self.sweep, tuple(trials), self.folder, outcomes, is_open)

    def _check_values(self) -> None:
        """A combination that no run can have is skipped; a value that none can have, whatever stands beside it, is a
        mistake in the file."""
        if self.sweep.method == "bayes":
            return
        possible = {field for trial in self.plan.trials if trial.cell is not None for field in trial.setting.fields}
        for trial in self.plan.refused:
            for key, value in trial.setting.fields:
                if (key, value) not in possible:
                    check_alone(self.sweep, key, value, self._config_dir)

    def _has_more(self, known: int) -> bool:
        cap = self.sweep.run_cap
        return self.sweep.method == "bayes" and cap is not None and known < cap

    def _ended(self, trial: SweptRun) -> Outcome | None:
        if trial.cell is None:
            return Outcome(REFUSED, reason=trial.refusal)
        assert self.folder is not None, "the first trial tells"
        folder = self.folder / "runs" / trial.cell.id
        record = ended_record(folder)
        return None if record is None else outcome_of(record, folder, self.sweep)

    def _trial(self, number: int, asked: Setting) -> SweptRun:
        setting = as_tried(self.sweep, asked)
        try:
            return SweptRun(number, setting, self._cell(number, setting))
        except ConfigurationError as error:
            if self.sweep.method == "bayes" and number == 0:
                raise ConfigurationError(f"sweep {self.sweep.name}, {setting.words}: {error}") from None
            return SweptRun(number, setting, None, str(error))

    def _cell(self, number: int, setting: Setting) -> Cell:
        overrides = overrides_of(self.sweep, number, setting)
        config = self._composer.composed(overrides)
        refuse_several_devices(config)
        if self.folder is None:
            self.folder = Path(config["output_dir"]) / "sweeps" / self.sweep.name
        return Cell(self.sweep.name, config["seed"], overrides, config, run_id(config), trial=number)


def overrides_of(sweep: Sweep, number: int, setting: Setting) -> tuple[str, ...]:
    """What makes the run with `h2h train`."""
    last = {key_of(override): override for override in sweep.overrides(*setting.overrides)}
    last.setdefault("group", f"group={sweep.name}")
    return (*last.values(), *(() if "name" in last else (f"name={name_of(sweep.name, 0, number)}",)))
