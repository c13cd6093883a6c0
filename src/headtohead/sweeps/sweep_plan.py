"""Turn a sweep into trials, each a checked run with an id made of what decides its result."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from typing import Literal

from headtohead.comparison.analyses.trials import Setting, Trial
from headtohead.config.compose.composition import composed_once
from headtohead.config.compose.overrides import key_of, name_in_override
from headtohead.config.errors import ConfigurationError
from headtohead.config.run_config import RunConfig
from headtohead.config.run_id import run_id
from headtohead.execution.run_spec import RunSpec, refuse_several_machines, run_name_of
from headtohead.execution.single_run import ended_record
from headtohead.execution.tuning import Tuning, size_of, uniform_draw
from headtohead.sweeps.parameters import (
    check_alone,
    check_metric,
    check_parameters,
)
from headtohead.sweeps.sweep import Outcome, Sweep, logged, outcome_of

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
    run: RunSpec | None
    """Return None where no run can be so."""
    refusal: str | None = None

    @property
    def command(self) -> str:
        """Return the command that repeats the run."""
        return f"h2h train {shlex.join(self.run.overrides if self.run is not None else ())}"


@dataclass(frozen=True)
class SweepPlan:
    """The trials known by now."""

    sweep: Sweep
    trials: tuple[SweptRun, ...]
    folder: Path
    """outputs/sweeps/NAME."""
    outcomes: Mapping[int, Outcome] = field(default_factory=dict)
    """The outcomes of the trials that have ended, by number."""
    is_open: bool = False
    """Whether more follow from how these end."""

    budget_name = None

    @property
    def method_words(self) -> str:
        return _METHODS[self.sweep.method]

    @property
    def runs(self) -> tuple[RunSpec, ...]:
        """Settings that come to the same are one run."""
        return tuple({trial.run.id: trial.run for trial in self.trials if trial.run is not None}.values())

    @property
    def refused(self) -> tuple[SweptRun, ...]:
        """Trials that no run can be, each with its reason."""
        return tuple(trial for trial in self.trials if trial.run is None)

    @property
    def num_runs(self) -> int:
        """Return the number of runs of the whole sweep, including those not known yet."""
        cap = self.sweep.run_cap
        return cap if self.is_open and cap is not None else len(self.runs)

    def run_folder(self, run: RunSpec) -> Path:
        return self.folder / "runs" / run.id


class Sweeper:
    """Plans a sweep again and again, as trials end."""

    def __init__(self, sweep: Sweep, config_dir: str | Path | None = None) -> None:
        self.sweep = sweep
        self._config_dir = config_dir
        self._compose = composed_once(config_dir)
        check_parameters(sweep, config_dir)
        self.folder: Path | None = None
        self.plan = self._planned()
        self._check_values()
        check_metric(sweep, [trial.run.config for trial in self.plan.trials if trial.run is not None])

    def again(self) -> tuple[SweepPlan, Sequence[RunSpec]]:
        """Plan again by the records of the trials."""
        self.plan = self._planned()
        return self.plan, self.plan.runs

    def _planned(self) -> SweepPlan:
        trials: list[SweptRun] = []
        outcomes: dict[int, Outcome] = {}
        tried: list[Trial] = []
        while settings := sweep_proposals(self.sweep, tried):
            batch = [self._trial(len(tried) + index, setting) for index, setting in enumerate(settings)]
            trials += batch
            ended = [self._ended(trial) for trial in batch]
            outcomes |= {
                trial.number: outcome for trial, outcome in zip(batch, ended, strict=True) if outcome is not None
            }
            if len(outcomes) < len(trials):
                return self._plan(trials, outcomes, is_open=self._has_more(len(trials)))
            tried += [
                Trial(trial.number, setting, outcome.status, outcome.value)
                for trial, setting, outcome in zip(batch, settings, ended, strict=True)
                if outcome is not None
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
        possible = {field for trial in self.plan.trials if trial.run is not None for field in trial.setting.overrides}
        for trial in self.plan.refused:
            for override, (key, value) in zip(trial.setting.overrides, trial.setting.fields, strict=True):
                if override not in possible:
                    check_alone(self.sweep, key, value, self._config_dir)

    def _has_more(self, known: int) -> bool:
        cap = self.sweep.run_cap
        return self.sweep.method == "bayes" and cap is not None and known < cap

    def _ended(self, trial: SweptRun) -> Outcome | None:
        if trial.run is None:
            return Outcome(REFUSED, reason=trial.refusal)
        assert self.folder is not None, "the first trial tells"
        folder = self.folder / "runs" / trial.run.id
        record = ended_record(folder)
        return None if record is None else outcome_of(record, folder, self.sweep)

    def _trial(self, number: int, proposal: Setting) -> SweptRun:
        setting = as_tried(self.sweep, proposal)
        try:
            return SweptRun(number, setting, self._cell(number, setting))
        except ConfigurationError as error:
            if self.sweep.method == "bayes" and number == 0:
                raise ConfigurationError(f"sweep {self.sweep.name}, {setting.words}: {error}") from None
            return SweptRun(number, setting, None, str(error))

    def _cell(self, number: int, setting: Setting) -> RunSpec:
        overrides = overrides_of(self.sweep, number, setting)
        config = self._compose(overrides)
        refuse_several_machines(config, f"sweep {self.sweep.name}")
        if self.folder is None:
            self.folder = Path(RunConfig(config).output_dir) / "sweeps" / self.sweep.name
        return RunSpec(self.sweep.name, RunConfig(config).seed, overrides, config, run_id(config), trial=number)


def overrides_of(sweep: Sweep, number: int, setting: Setting) -> tuple[str, ...]:
    """Return the overrides that make the run with `h2h train`."""
    last = {key_of(override): override for override in sweep.overrides(*setting.overrides)}
    own = {"group": sweep.name, "name": run_name_of(sweep.name, None, number)}
    return (*last.values(), *(f"{key}={name_in_override(name)}" for key, name in own.items() if key not in last))


class EarlyStopping:
    """Early stopping follows Hyperband, from what all trials of the sweep have logged by now, here or on other
    machines."""

    def __init__(self, sweeper: Sweeper) -> None:
        self._sweeper = sweeper
        self._sizes: dict[str, int] = {}

    def __call__(self, run: RunSpec, folder: Path) -> str | None:
        hyperband = self._sweeper.sweep.hyperband
        if hyperband is None or not self._has_news(run, folder):
            return None
        steps, own = logged(folder, self._sweeper.sweep.metric)
        if not steps or steps[-1] >= RunConfig(run.config).max_steps:
            return None
        plan = self._sweeper.plan
        all_of_them = [logged(plan.run_folder(other), plan.sweep.metric)[1] for other in plan.runs]
        return hyperband.against(own, all_of_them, larger_is_better=plan.sweep.larger_is_better)

    def _has_news(self, run: RunSpec, folder: Path) -> bool:
        file = folder / "metrics.csv"
        size = file.stat().st_size if file.is_file() else 0
        before, self._sizes[run.id] = self._sizes.get(run.id, 0), size
        return size != before


BATCH = 4
"""Bayesian search proposes so many at once: as many workers have something to do, and any number finds the same."""
_ATTEMPTS = 50
"""Draws in a row that were tried before: then everything has been tried."""


def sweep_proposals(sweep: Sweep, tried: Sequence[Trial]) -> list[Setting]:
    """Return the next trials as the search sees them, all of `tried` ended; none: it is over. `as_tried` turns them
    into what is run."""
    if sweep.method == "grid":
        return list(islice(_grid(sweep), len(tried), sweep.run_cap))
    assert sweep.run_cap is not None, "only a grid ends by itself"
    if sweep.method == "random":
        return list(islice(_random(sweep), len(tried), sweep.run_cap))
    batch_size = min(BATCH, sweep.run_cap - len(tried))
    return [] if batch_size <= 0 else _suggested(sweep, tried, batch_size)


def as_tried(sweep: Sweep, setting: Setting) -> Setting:
    """Bayesian search sees chances where a parameter has a distribution."""
    if sweep.method != "bayes":
        return setting
    return Setting(tuple((key, sweep.swept[key].value_at(value)) for key, value in setting.fields))


def _grid(sweep: Sweep) -> Iterator[Setting]:
    """Yield the last parameter moves first."""
    points = [[(key, value) for value in entry.points or ()] for key, entry in sweep.swept.items()]
    return (Setting(fields) for fields in product(*points))


def _random(sweep: Sweep) -> Iterator[Setting]:
    """Different ones; asking for more leaves the first as they are."""
    seen: set[Setting] = set()
    number, in_vain = 0, 0
    while in_vain < _ATTEMPTS:
        setting = Setting(
            tuple((key, entry.at(uniform_draw(sweep.seed, number, key))) for key, entry in sweep.swept.items())
        )
        if setting in seen:
            in_vain += 1
        else:
            in_vain = 0
            seen.add(setting)
            yield setting
        number += 1


def _suggested(sweep: Sweep, tried: Sequence[Trial], batch_size: int) -> list[Setting]:
    """Return settings suggested by Optuna without repetition; those of one batch take each other into account."""
    from headtohead.execution.tuning import suggested

    space = {key: entry.dimension for key, entry in sweep.swept.items()}
    direction: Literal["min", "max"] = "max" if sweep.larger_is_better else "min"
    known = list(tried)
    while len(known) < min(len(tried) + batch_size, size_of(space)):
        tuning = Tuning("optuna", len(known) + 1, space, sweep.seed, direction=direction)
        (setting,) = suggested(tuning, known)
        known.append(Trial(len(known), setting, "running"))
    return [trial.setting for trial in known[len(tried) :]]
