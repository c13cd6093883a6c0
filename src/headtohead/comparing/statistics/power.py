"""What a number of seeds can show: power, the smallest effect found in most studies, and the seeds an effect needs."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

POWER = 0.8
MOST_SEEDS = 1000
"""More than anybody trains: beyond it the answer is None."""
_LARGEST = 1e6
_NODES = 200


def power(effect: float, num_seeds: int, *, alpha: float = 0.05, paired: bool = True) -> float:
    """How often a true effect, in standard deviations, is found at this level; two-sided, for normal values.

    The deviation is the paired difference's; unpaired, the one both arms share. The noncentral t, integrated over the
    estimated deviation, since scipy's own gives NaN at two seeds.
    """
    from scipy import stats

    degrees, scale = (num_seeds - 1, num_seeds) if paired else (2 * num_seeds - 2, num_seeds / 2)
    deviations, weights = _deviations(degrees)
    limit = stats.t.isf(alpha / 2, degrees) * deviations
    shift = abs(effect) * math.sqrt(scale)
    return float(weights @ (stats.norm.sf(limit - shift) + stats.norm.cdf(-limit - shift)))


@lru_cache(maxsize=2 * MOST_SEEDS)
def _deviations(degrees: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What the estimated deviation may be, in true ones, with the weights of an integral over its distribution."""
    from scipy import stats

    nodes, weights = _quadrature()
    return np.sqrt(stats.chi2.ppf((nodes + 1) / 2, degrees) / degrees), weights / 2


@lru_cache(maxsize=1)
def _quadrature() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return np.polynomial.legendre.leggauss(_NODES)


@lru_cache(maxsize=1024)
def detectable_effect(num_seeds: int, *, alpha: float = 0.05, paired: bool = True, wanted: float = POWER) -> float:
    """The smallest effect, in standard deviations, that this many seeds find with the wanted power."""
    from scipy import optimize

    if num_seeds < 2:
        return math.inf

    def missing(effect: float) -> float:
        return power(effect, num_seeds, alpha=alpha, paired=paired) - wanted

    above = 1.0
    while missing(above) < 0:
        above *= 2
        if above > _LARGEST:
            return math.inf
    return float(optimize.brentq(missing, 0.0, above, xtol=1e-6))


def seeds_needed(effect: float, *, alpha: float = 0.05, paired: bool = True, wanted: float = POWER) -> int | None:
    """The seeds a new registration needs to find the effect; None above MOST_SEEDS."""
    if power(effect, MOST_SEEDS, alpha=alpha, paired=paired) < wanted:
        return None
    few, enough = 1, MOST_SEEDS  # one seed shows nothing
    while enough - few > 1:
        middle = (few + enough) // 2
        if power(effect, middle, alpha=alpha, paired=paired) < wanted:
            few = middle
        else:
            enough = middle
    return enough
