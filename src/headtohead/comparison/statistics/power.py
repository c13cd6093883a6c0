"""Compute what a number of seeds can show: power, the smallest effect found in most studies, and the seeds an effect
needs.

`alpha` is the error rate of the study; `level` is what the p-value of the one contrast has to stay below: alpha unless
given, and over the number of contrasts in a family, which is Holm's strictest step.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headtohead.comparison.statistics import value_shapes
from headtohead.comparison.statistics.distributions import (
    chi_squared_quantile,
    norm_sf,
    t_isf,
)
from headtohead.comparison.statistics.exact_tests import ExactTestGuard, rearrangements
from headtohead.comparison.statistics.means import paired as paired_difference
from headtohead.comparison.statistics.means import welch

_Point = tuple[float, float]
_Studies = tuple[NDArray[np.float64], NDArray[np.float32], NDArray[np.float32]]
POWER = 0.8
MOST_SEEDS = 1000
"""More than anybody trains: beyond it the answer is None."""
SURE = 0.8
"""The probability that the spread of a pilot lies within what is taken for it."""
_LARGEST = 1e6
_NODES = 200
_SIMULATED_TO = {True: 12, False: 7}
"""Seeds up to which the exact test that stands beside the t-test costs power: simulated. Beyond, t alone tells."""
_STUDIES, _DRAWN_WITH = 4000, 0
_ROOT_RELATIVE = 4 * sys.float_info.epsilon
_MOST_ROOT_STEPS = 100


def power(
    effect: float, num_seeds: int, *, alpha: float = 0.05, level: float | None = None, paired: bool = True
) -> float:
    """Return how often a true effect, in standard deviations, gets its verdict; two-sided, for normal values.

    The deviation is the paired difference's; unpaired, the one both arms share. Where seeds are too few for an exact
    test, the share of normal studies that are called skewed gets none.
    """
    guard = ExactTestGuard((num_seeds, num_seeds), alpha, alpha if level is None else level, paired)
    called_skewed = 0.0 if guard.suffices or num_seeds < value_shapes.FEWEST else value_shapes.LEVEL
    if guard.takes_part and num_seeds <= _SIMULATED_TO[paired]:
        return (1 - called_skewed) * _guarded_power(effect, num_seeds, guard)
    return (1 - called_skewed) * power_of_t(effect, num_seeds, alpha=guard.level, paired=paired)


def power_of_t(effect: float, num_seeds: int, *, alpha: float = 0.05, paired: bool = True) -> float:
    """Return the power of a t-test alone: the noncentral t, integrated over the estimated deviation, since scipy's own
    gives NaN at two seeds."""
    degrees, scale = (num_seeds - 1, num_seeds) if paired else (2 * num_seeds - 2, num_seeds / 2)
    deviations, weights = _deviations(degrees)
    limit = t_isf(alpha / 2, degrees) * deviations
    shift = abs(effect) * math.sqrt(scale)
    return float(weights @ (norm_sf(limit - shift) + norm_sf(limit + shift)))


@lru_cache(maxsize=1024)
def detectable_effect(
    num_seeds: int, *, alpha: float = 0.05, level: float | None = None, paired: bool = True, requested: float = POWER
) -> float:
    """Return the smallest effect, in standard deviations, that this many seeds find with the requested power."""
    if num_seeds < 2:
        return math.inf

    def missing(effect: float) -> float:
        return power(effect, num_seeds, alpha=alpha, level=level, paired=paired) - requested

    above = 1.0
    while missing(above) < 0:
        above *= 2
        if above > _LARGEST:
            return math.inf
    return brent_root(missing, 0.0, above, tolerance=1e-4)


def seeds_needed(
    effect: float, *, alpha: float = 0.05, level: float | None = None, paired: bool = True, requested: float = POWER
) -> int | None:
    """Return the seeds a new registration needs to find the effect; None above MOST_SEEDS."""

    def suffices(num_seeds: int) -> bool:
        detectable = detectable_effect(num_seeds, alpha=alpha, level=level, paired=paired, requested=requested)
        return detectable <= abs(effect)

    if not suffices(MOST_SEEDS):
        return None
    few, enough = 1, MOST_SEEDS  # one seed shows nothing
    while enough - few > 1:
        middle = (few + enough) // 2
        few, enough = (few, middle) if suffices(middle) else (middle, enough)
    return enough


def range_of_seeds(
    difference: float,
    sd: float,
    degrees: float,
    *,
    alpha: float = 0.05,
    level: float | None = None,
    paired: bool = True,
) -> tuple[int | None, int | None]:
    """Return the fewest and the most seeds that a difference of this size may need, since the spread of a pilot with so
    many degrees of freedom is known no better: it lies between them in 80 % of pilots. None above MOST_SEEDS."""
    ends = [chi_squared_quantile((1 + side * SURE) / 2, degrees) / degrees for side in (1, -1)]
    least, most = (
        seeds_needed(difference * math.sqrt(end) / sd, alpha=alpha, level=level, paired=paired) for end in ends
    )
    return least, most


def _guarded_power(effect: float, num_seeds: int, guard: ExactTestGuard) -> float:
    """Return the share of simulated studies in which both tests find the effect: the same draws for every effect."""
    values, sums, shifts = _simulated(num_seeds, paired=guard.paired)
    first, second = values[:, :num_seeds] + abs(effect), values[:, num_seeds:]
    difference = paired_difference(first, np.zeros_like(first)) if guard.paired else welch(first, second)
    sizes = np.abs(sums + np.float32(abs(effect)) * shifts)
    exact = (sizes >= sizes[:, :1] * (1 - 1e-5)).mean(axis=1)
    return float(np.mean((difference.p() < guard.level) & guard.agrees(exact)))


@lru_cache(maxsize=4)
def _simulated(num_seeds: int, *, paired: bool) -> _Studies:
    """Return values of studies without effect, their rearranged sums, and how far an effect of 1 shifts each. Of two
    ways that mirror each other one is enough, since sizes alone are compared."""
    values = np.random.default_rng(_DRAWN_WITH).normal(size=(_STUDIES, num_seeds if paired else 2 * num_seeds))
    weights = rearrangements(num_seeds, num_seeds, paired=paired)
    weights = weights[weights[:, 0] > 0].astype(np.float32)
    sums = np.asarray(values.astype(np.float32) @ weights.T, dtype=np.float32)
    return values, sums, np.asarray(weights[:, :num_seeds].sum(axis=1), dtype=np.float32)


@lru_cache(maxsize=2 * MOST_SEEDS)
def _deviations(degrees: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return possible estimates of the deviation, in units of the true one, with the weights of an integral over their
    distribution."""
    nodes, weights = _quadrature()
    return np.sqrt(chi_squared_quantile((nodes + 1) / 2, degrees) / degrees), weights / 2


@lru_cache(maxsize=1)
def _quadrature() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.polynomial.legendre.leggauss(_NODES)


def brent_root(function: Callable[[float], float], below: float, above: float, tolerance: float) -> float:
    """Return where the function, which has opposite signs at the ends, is zero: by Brent's method (Brent 1973,
    Algorithms for Minimization without Derivatives, chapter 4) in the steps of scipy.optimize.brentq, whose import
    takes longer than the handful of roots of a study."""
    before, here = below, above
    value_before, value_here = function(before), function(here)
    if value_before == 0:
        return before
    other, value_other, step_before, step = before, value_before, 0.0, 0.0
    for _ in range(_MOST_ROOT_STEPS):
        if value_here and value_before and (value_before < 0) != (value_here < 0):
            other, value_other, step_before, step = before, value_before, here - before, here - before
        if abs(value_other) < abs(value_here):
            before, here, other = here, other, here
            value_before, value_here, value_other = value_here, value_other, value_here
        least, half = (tolerance + _ROOT_RELATIVE * abs(here)) / 2, (other - here) / 2
        if value_here == 0 or abs(half) < least:
            break
        trial = half
        if abs(step_before) > least and abs(value_here) < abs(value_before):
            trial = _step_to_root((before, value_before), (here, value_here), (other, value_other))
        is_short = 2 * abs(trial) < min(abs(step_before), 3 * abs(half) - least)
        step_before, step = (step, trial) if is_short and trial != half else (half, half)
        before, value_before = here, value_here
        here += step if abs(step) > least else (least if half > 0 else -least)
        value_here = function(here)
    return here


def _step_to_root(before: _Point, here: _Point, other: _Point) -> float:
    """Return the step to the root of the line through two points, or of the inverse parabola through three."""
    if before[0] == other[0]:
        return -here[1] * (here[0] - before[0]) / (here[1] - before[1])
    slope_before = (before[1] - here[1]) / (before[0] - here[0])
    slope_other = (other[1] - here[1]) / (other[0] - here[0])
    divisor = slope_other * slope_before * (other[1] - before[1])
    return -here[1] * (other[1] * slope_other - before[1] * slope_before) / divisor
