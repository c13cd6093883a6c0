"""Intervals as they are shown: after Student, and not beyond what a metric can be. Nothing that is true lies there, so
that cutting them loses nothing of what they hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from headtohead.comparison.statistics.means import interval_of
from headtohead.metrics import Metric, metric_named

Ends = tuple[float, float]


def mean_interval(values: Sequence[float], alpha: float, metric: Metric | str) -> Ends | None:
    """Return the interval of a mean over seeds; None below two seeds, or if they do not differ."""
    return _cut(interval_of(values, alpha), bounds_of(metric, values))


def difference_interval(
    result: Ends | None, metric: Metric | str, values: Iterable[float | None], *, times: float = 1.0
) -> Ends | None:
    """An interval of a difference of two means, whose values these are; None is a run that diverged. `times` is how
    many such differences it is a sum of."""
    least, most = bounds_of(metric, [value for value in values if value is not None])
    return _cut(result, (times * (least - most), times * (most - least)))


def bounds_of(metric: Metric | str, values: Sequence[float]) -> Ends:
    """Return the least and the most that the metric can be, whose values these are: infinite where nobody knows it, or
    other programs counted otherwise, in percent."""
    known = metric_named(metric) if isinstance(metric, str) else metric
    if known is None or not all(known.low <= value <= known.high for value in values):
        return -math.inf, math.inf
    return known.low, known.high


def _cut(result: Ends | None, ends: Ends) -> Ends | None:
    return None if result is None else (max(result[0], ends[0]), min(result[1], ends[1]))
