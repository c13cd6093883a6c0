"""Compare arms on test rows that are several times as long as those they were trained on."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from headtohead.comparison.metric_scales import chance_in
from headtohead.comparison.statistics.means import mean_interval
from headtohead.records.metrics_file import multiple_of, stage_at
from headtohead.records.record import RunRecord


@dataclass(frozen=True)
class LengthPoint:
    """One arm at one multiple of the training length."""

    multiple: int
    mean: float | None
    """The mean over its runs; None where one of them gave no number."""
    interval: tuple[float, float] | None
    num_runs: int
    reason: str | None = None
    """The reason why there is no mean."""


@dataclass(frozen=True)
class LengthCurve:
    """One arm."""

    arm: str
    points: tuple[LengthPoint, ...]
    """All points, by multiple."""

    @property
    def measured(self) -> list[LengthPoint]:
        return [point for point in self.points if point.mean is not None]

    @property
    def why_not(self) -> str:
        """The reason for the first multiple that it cannot do; longer ones fail likewise."""
        missing = [point for point in self.points if point.reason is not None]
        return f"{missing[0].multiple}x: {missing[0].reason}" if missing else ""


@dataclass(frozen=True)
class LengthCurves:
    """All arms, at the same multiples."""

    metric: str
    """The metric without its stage: loss."""
    multiples: tuple[int, ...]
    curves: tuple[LengthCurve, ...]
    chances: tuple[float | None, ...] = ()
    """The scores of a model that learned nothing, by multiple; None where they are not known."""

    @property
    def chance(self) -> Mapping[float, float]:
        """Return the chance of each multiple of which it is known."""
        return {at: value for at, value in zip(self.multiples, self.chances, strict=False) if value is not None}


def lengths_of(arms: Mapping[str, Sequence[RunRecord]], metric: str, alpha: float) -> LengthCurves | None:
    """Return the curves of each arm's finished runs, or None if no longer test was requested; `metric` has no stage."""
    records = [record for runs in arms.values() for record in runs]
    stages = {stage for record in records for stage in (*record.metrics, *record.cannot)}
    multiples = sorted({multiple for stage in stages if (multiple := multiple_of(stage)) is not None})
    if not any(multiple > 1 for multiple in multiples):
        return None
    curves = [
        LengthCurve(arm, tuple(_point(runs, multiple, metric, alpha) for multiple in multiples))
        for arm, runs in arms.items()
        if runs
    ]
    chances = (chance_in(records, stage_at(multiple), metric) for multiple in multiples)
    return LengthCurves(metric, tuple(multiples), tuple(curves), tuple(chances))


def _point(runs: Sequence[RunRecord], multiple: int, metric: str, alpha: float) -> LengthPoint:
    stage = stage_at(multiple)
    measured = [record.metrics.get(stage, {}).get(metric) for record in runs]
    values = [value for value in measured if value is not None and math.isfinite(value)]
    if values and len(values) == len(runs):
        return LengthPoint(
            multiple, fmean(values), mean_interval(values, alpha, runs[0].metric(metric) or metric), len(runs)
        )
    reasons = Counter(record.cannot[stage] for record in runs if stage in record.cannot)
    if reasons:
        return LengthPoint(multiple, None, None, len(runs), reasons.most_common(1)[0][0])
    bad = f"{len(runs) - len(values)} of {len(runs)} runs gave no finite number"
    return LengthPoint(multiple, None, None, len(runs), "it was not tested" if None in measured else bad)
