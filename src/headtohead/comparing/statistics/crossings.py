"""Where two curves over a budget cross, and whether it is known which arm leads on either side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from headtohead.comparing.statistics.means import paired
from headtohead.errors import UsageError


@dataclass(frozen=True)
class Crossing:
    """A point of the budget at which the mean difference changes sign."""

    at: float
    low: float
    high: float
    """The nearest measured points on either side that are decided; the ends of the curve where there is none."""
    decided: bool
    """Each side has a point at which the other arm leads for sure; else the curves only touch within the interval."""


def crossings(budget: ArrayLike, first: ArrayLike, second: ArrayLike, *, alpha: float = 0.05) -> list[Crossing]:
    """Of curves [seeds, points], each point a run of its own; between points the difference is linear in log budget."""
    x = np.asarray(budget, dtype=np.float64)
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if (np.diff(x) <= 0).any() or x[0] <= 0:
        raise UsageError("budget: rising numbers above 0 are needed")
    estimate = paired(a.T, b.T)
    low, high = estimate.interval(alpha)
    sure = np.where(low > 0, 1, np.where(high < 0, -1, 0))
    mean = estimate.difference
    # a point of exactly no difference belongs to the side it comes from
    signs = np.sign(mean)
    for i in range(1, len(signs)):
        signs[i] = signs[i] or signs[i - 1]
    places = np.flatnonzero(signs[1:] * signs[:-1] < 0)
    return [_crossing(np.log(x), mean, sure, int(i)) for i in places]


def _crossing(log_x: np.ndarray, mean: np.ndarray, sure: np.ndarray, i: int) -> Crossing:
    share = mean[i] / (mean[i] - mean[i + 1])
    at = log_x[i] + share * (log_x[i + 1] - log_x[i])
    before, after = np.flatnonzero(sure[: i + 1]), np.flatnonzero(sure[i + 1 :]) + i + 1
    decided = bool(before.size and after.size and sure[before[-1]] * sure[after[0]] < 0)
    low = log_x[before[-1]] if before.size else log_x[0]
    high = log_x[after[0]] if after.size else log_x[-1]
    return Crossing(float(np.exp(at)), float(np.exp(low)), float(np.exp(high)), decided)
