"""Studies in which every arm is the same: records are made up, and judged as the records of any study are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headtohead.comparison.contrasts import Verdict
from headtohead.execution.run_spec import RunSpec
from headtohead.records.record import Progress, RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.studies.definition.read_study_file import study_from
from headtohead.studies.planning.registration import register
from headtohead.studies.planning.study_plan import StudyPlan
from headtohead.studies.results import study_report

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
"""So many values of runs; NaN is a run that diverged."""
_CHANCE = 0.1
_STEPS = range(50, 1001, 50)


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.normal(2.0, 0.1, size=shape)


def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return 1.0 + rng.lognormal(0.0, 1.0, size=shape)


def bimodal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Solved or at chance."""
    return np.where(rng.random(shape) < 0.5, 0.97, 0.12) + rng.uniform(-0.02, 0.02, size=shape)


def saturated(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Most at the best there is, some on the way to it."""
    return 1.0 - rng.exponential(0.01, size=shape)


def between(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """So spread out that one study is told to be of two groups, and the next is not."""
    return rng.beta(0.5, 0.5, size=shape)


def diverging(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.where(rng.random(shape) < 0.15, np.nan, normal(rng, shape))


class NullStudies:
    """One design, drawn again and again; `looks` are numbers of seeds at which it is read until something is found."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        seeds: int = 5,
        arms: Sequence[str] = ("a", "b"),
        looks: Sequence[int] = (),
        **changes: Any,
    ) -> None:
        self.arms, self.seeds = arms, seeds
        self._folder, self._changes = folder, {**changes, "looks": list(looks)}
        self._plans = [self._plan(n) for n in looks or [seeds]]
        self._is_registered = True
        register(self._plans[0])
        self._records: dict[str, RunRecord] = {}
        self._curves = folder / "curves"
        monkeypatch.setattr(study_report, "record_of", lambda at: self._records[at.name])

    def read_at(self, numbers: Sequence[int]) -> None:
        """Read the results as nobody should: without having registered the looks."""
        self._plans = [self._plan(n) for n in numbers]
        self._is_registered = False

    def _plan(self, seeds: int) -> StudyPlan:
        options = {"question": "?", "hypothesis": "None.", "tuning": "none", "metric": "test/value", "direction": "max"}
        arms: dict[str, list[str]] = {arm: [] for arm in self.arms}
        study = study_from("null", {**options, "arms": arms, "seeds": seeds, "baseline": self.arms[0], **self._changes})
        cells = [
            RunSpec(arm, seed, (), {"trainer": {}, "arm": arm, "seed": seed}, f"{arm}{seed}")
            for seed in range(seeds)
            for arm in self.arms
        ]
        return StudyPlan(study, tuple(cells), self._folder, {cell.arm: cell.config for cell in cells})

    def false_verdicts(self, draw: Draw, *, studies: int, timed: bool = False) -> float:
        """The share of studies in which some arm is called better or worse than itself."""
        rng, result = np.random.default_rng(0), 0
        if timed:
            self._write_curves()
        for _ in range(studies):
            values = draw(rng, (len(self.arms), self.seeds))
            self._records = {
                f"{arm}{seed}": self._record(f"{arm}{seed}", float(values[position, seed]), rng, timed=timed)
                for position, arm in enumerate(self.arms)
                for seed in range(self.seeds)
            }
            result += any(self._decided(plan) for plan in self._plans)
        return result / studies

    def _decided(self, plan: StudyPlan) -> bool:
        verdicts: Sequence[Verdict] = study_report.report_of(plan).verdicts
        assert len(verdicts) == len(self.arms) - 1
        assert not (self._is_registered and any(verdict.exploratory for verdict in verdicts))
        return any(verdict.kind in ("better", "worse") for verdict in verdicts)

    def _record(self, name: str, value: float, rng: np.random.Generator, *, timed: bool) -> RunRecord:
        record = RunRecord(id=name, baselines={"value": _CHANCE}, progress=Progress(step=1, tokens=1))
        record.status = "diverged" if np.isnan(value) else "finished"
        record.metrics = {} if np.isnan(value) else {"test": {"value": value}}
        record.path = self._curves / str(rng.integers(len(_STEPS))) if timed else None
        return record

    def _write_curves(self) -> None:
        """One that is solved at each of the steps; runs draw among them."""
        for position, solved in enumerate(_STEPS):
            folder = RunFolder(self._curves / str(position))
            folder.path.mkdir(parents=True)
            for step in _STEPS:
                folder.metrics_file.append(Progress(step=step), {"validation/value": 1.0 if step >= solved else 0.5})
