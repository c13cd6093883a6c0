"""Differences of means over seeds, with intervals cut to what a metric can be: Student's t if paired, Welch's
(https://doi.org/10.1093/biomet/34.1-2.28) if not.

Every function works along the last axis, the seeds, so that a simulation is one call. A difference without spread has
neither interval nor p-value: both are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headtohead.comparison.statistics.distributions import Floats, t_isf, t_sf
from headtohead.errors import UsageError
from headtohead.metrics import Metric, metric_named

_ROUNDING = 1e-12
"""A spread smaller than this share of the values comes from rounding."""


@dataclass(frozen=True)
class MeanDifference:
    """A difference of means and how sure it is."""

    difference: Floats
    error: Floats
    """Its standard error; NaN where the values have no spread."""
    degrees: Floats
    """The degrees of freedom."""
    sd: Floats
    """The standard deviation of the paired difference; unpaired, the root mean square of the two arms'."""

    def interval(self, alpha: float = 0.05) -> tuple[Floats, Floats]:
        """Holds the true difference in 1 - alpha of all studies."""
        reach = t_isf(alpha / 2, self.degrees) * self.error
        return self.difference - reach, self.difference + reach

    def p(self) -> Floats:
        """Two-sided, against no difference."""
        return 2 * t_sf(np.abs(self.difference) / self.error, self.degrees)

    def p_equivalent(self, margin: float) -> Floats:
        """Return two one-sided tests against a difference of the margin or more
        (https://doi.org/10.1007/BF01068419)."""
        if not margin > 0:
            raise UsageError(f"margin={margin}: the smallest difference that matters is a number above 0")
        return t_sf((margin - np.abs(self.difference)) / self.error, self.degrees)


def paired(first: ArrayLike, second: ArrayLike) -> MeanDifference:
    """Return first - second, where seed i of both shares its data."""
    a, b = _values(first), _values(second)
    if a.shape != b.shape:
        raise UsageError(f"paired values have shapes {a.shape} and {b.shape}: each seed needs one value of both arms")
    differences = a - b
    num_seeds = differences.shape[-1]
    with np.errstate(over="ignore"):
        sd = differences.std(axis=-1, ddof=1)
    error = np.where(_spreads(sd, a, b), sd / np.sqrt(num_seeds), np.nan)
    return MeanDifference(differences.mean(axis=-1), error, np.full_like(error, num_seeds - 1), sd)


def welch(first: ArrayLike, second: ArrayLike) -> MeanDifference:
    """Return first - second, where the seeds share nothing and the spreads may differ."""
    a, b = _values(first), _values(second)
    with np.errstate(over="ignore"):
        shares = [x.var(axis=-1, ddof=1) / x.shape[-1] for x in (a, b)]
        sd = np.sqrt((a.var(axis=-1, ddof=1) + b.var(axis=-1, ddof=1)) / 2)
    spreads = _spreads(sd, a, b)
    whole = np.where(spreads, sum(shares), np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        parts = sum(share**2 / (x.shape[-1] - 1) for share, x in zip(shares, (a, b), strict=True))
        degrees = whole**2 / np.where(spreads, parts, np.nan)
    return MeanDifference(a.mean(axis=-1) - b.mean(axis=-1), np.sqrt(whole), degrees, sd)


def interval_of(values: Sequence[float], alpha: float) -> tuple[float, float] | None:
    """Return Student's interval of a mean over seeds; None below two seeds, or if they do not differ."""
    if len(values) < 2:
        return None
    low, high = (float(bound) for bound in paired(values, [0.0] * len(values)).interval(alpha))
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None


def _values(array: ArrayLike) -> Floats:
    values = np.asarray(array, dtype=np.float64)
    if values.ndim == 0 or values.shape[-1] < 2:
        raise UsageError("one seed has no spread: a test of means needs two seeds or more in each arm")
    if not np.isfinite(values).all():
        raise UsageError("a value is not finite: a diverged run is counted, never averaged")
    return values


def _spreads(sd: Floats, a: Floats, b: Floats) -> NDArray[np.bool_]:
    size = np.maximum(np.abs(a).max(axis=-1), np.abs(b).max(axis=-1))
    return np.asarray(sd > _ROUNDING * size)


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
