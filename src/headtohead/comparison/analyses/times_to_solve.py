"""Measure how soon runs solved their task, by the metric on validation data during training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from headtohead.comparison.contrasts import TimeUnit, Values
from headtohead.records.metrics_file import TEST, Curve
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.records.run_summary import UNNAMED_STAGE

Run = tuple[str, int, RunRecord]
"""The arm it belongs to, and the seed that pairs it."""
_VALIDATED = (TEST, "validation", UNNAMED_STAGE)
"""Longer rows are measured at the end alone."""

_UNITS: Mapping[str, TimeUnit] = {"equal_flops": "FLOPs", "equal_time": "seconds"}


def unit_under(budget: str | None) -> TimeUnit:
    """Return the unit of times: the quantity that was held equal, or steps if that is not a measure of time."""
    return "steps" if budget is None else _UNITS.get(budget, "steps")


class TimesToSolve:
    """Times to solve are known for the runs that finished; an arm has none if one of its runs left no curve."""

    def __init__(
        self,
        runs: Iterable[Run],
        metric: str,
        direction: Literal["min", "max"],
        curves: Mapping[str, Curve] | None = None,
        unit: TimeUnit = "steps",
    ) -> None:
        """`curves` of runs without a folder of their own, by run id; others are read when they are requested."""
        self._stage, _, self._name = metric.partition("/")
        self._sign = 1 if direction == "max" else -1
        self._curves_by_run, self._unit = curves or {}, unit
        self._runs = [run for run in runs if run[2].status == "finished"] if self._stage in _VALIDATED else []
        self._read: dict[str, dict[int, Curve]] | None = None

    def __call__(self, at: float) -> Values:
        """Return when each run reached this value, or None for never."""
        return {arm: {seed: self._time(curve, at) for seed, curve in by.items()} for arm, by in self._curves().items()}

    def spacings(self, arms: Sequence[str]) -> dict[str, float]:
        """Return when each arm was first measured, which is the resolution of its times."""
        known = self._curves() if arms else {}  # of runs that nobody asks for, no file is opened
        return {arm: min(self._times(curve)[0] for curve in known[arm].values()) for arm in arms if arm in known}

    def _curves(self) -> dict[str, dict[int, Curve]]:
        if self._read is None:
            curves: dict[str, dict[int, Curve | None]] = {}
            for arm, seed, record in self._runs:
                curves.setdefault(arm, {})[seed] = self._curve(record)
            whole = {arm: {seed: c for seed, c in by.items() if c and self._times(c)[-1]} for arm, by in curves.items()}
            self._read = {arm: by for arm, by in whole.items() if len(by) == len(curves[arm])}
        return self._read

    def _curve(self, record: RunRecord) -> Curve | None:
        if record.id in self._curves_by_run or record.path is None:
            return self._curves_by_run.get(record.id)
        name = f"validation/{self._name}"
        return RunFolder(record.path).metrics({name}).get(name)

    def _time(self, curve: Curve, at: float) -> float | None:
        known = zip(self._times(curve), curve.value, strict=True)
        return next((float(time) for time, value in known if self._sign * (value - at) >= 0), None)

    def _times(self, curve: Curve) -> Sequence[float]:
        """Zeros where another program did not say."""
        known: Mapping[TimeUnit, Sequence[float]] = {
            "steps": curve.step, "FLOPs": curve.flops, "seconds": curve.seconds,
        }  # fmt: skip
        return known[self._unit]
