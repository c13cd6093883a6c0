"""p-values of a family of contrasts: Holm where it was registered (https://www.jstor.org/stable/4615733), the false
discovery rate of Benjamini and Hochberg (https://doi.org/10.1111/j.2517-6161.1995.tb02031.x) where it explores.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headtohead.comparison.statistics.distributions import norm_isf, norm_sf, t_isf, t_sf
from headtohead.errors import UsageError

Adjustment = Literal["holm", "benjamini_hochberg"]


def adjusted(p_values: Sequence[float | None], method: Adjustment) -> list[float | None]:
    """Adjust p-values in the given order. A contrast without a p-value stays without one, but counts in the family."""
    if not p_values:
        return []
    family = np.array([1.0 if p is None else p for p in p_values])
    raised = _holm(family) if method == "holm" else _benjamini_hochberg(family)
    return [None if p is None else float(new) for p, new in zip(p_values, raised, strict=True)]


def _holm(family: NDArray[np.float64]) -> NDArray[np.float64]:
    order = family.argsort()
    raised = np.empty_like(family)
    raised[order] = np.maximum.accumulate(family[order] * np.arange(len(family), 0, -1)).clip(max=1.0)
    return raised


def _benjamini_hochberg(family: NDArray[np.float64]) -> NDArray[np.float64]:
    order = family.argsort()[::-1]
    raised = np.empty_like(family)
    raised[order] = np.minimum.accumulate(family[order] * (len(family) / np.arange(len(family), 0, -1))).clip(max=1.0)
    return raised


# Interim analyses spend alpha in O'Brien and Fleming's manner (Lan and DeMets, https://doi.org/10.1093/biomet/70.3.659):
# an analysis of few seeds may spend next to nothing, and the last keeps nearly all. Boundaries of normal scores let
# t-tests of so few seeds err in 5.3 to 5.8 % of studies, so these come from simulations of the t-tests themselves
# (https://doi.org/10.1016/j.cct.2007.02.006). Each contrast of a family spends its own alpha
# (https://doi.org/10.1080/19466315.2013.807748).


_PATHS = 1_000_000
_DRAWN_WITH = 0
_FEWEST = 100
"""Paths that have to cross a boundary before it is believed."""
_LEAST = 1e-15
"""The least level: below it there is no interval that a number could hold."""


def alpha_spent(share: float, alpha: float = 0.05) -> float:
    """The two-sided error that may be used up once this share of the seeds is in."""
    return float(4 * norm_sf(norm_isf(alpha / 4) / np.sqrt(share)))


def interim_levels(interim_analyses: Sequence[int], *, alpha: float = 0.05, num_contrasts: int = 1) -> list[float]:
    """Return the level of each interim analysis; they are rising numbers of seeds, the last one all that is registered.

    Of a family the p-values are Holm's: each of its steps stays below what its share of alpha may spend.
    """
    if not interim_analyses or interim_analyses[0] < 2 or any(b <= a for a, b in pairwise(interim_analyses)):
        raise UsageError(f"looks={list(interim_analyses)}: give rising numbers of seeds, for example [3, 5, 8]")
    steps = [[n * level for level in _levels(tuple(interim_analyses), alpha / n)] for n in range(1, num_contrasts + 1)]
    return [min(at) for at in zip(*steps, strict=True)]


@lru_cache(maxsize=256)
def _levels(interim_analyses: tuple[int, ...], alpha: float) -> tuple[float, ...]:
    """Each boundary lets through what was newly earned, among the paths that crossed none before it."""
    budget = [0.0, *(alpha_spent(n / interim_analyses[-1], alpha) for n in interim_analyses)]
    levels, inside = [max(budget[1], _LEAST)], np.ones(_PATHS, dtype=bool)
    for index, num_seeds in enumerate(interim_analyses[:-1]):
        paths, after = _paths(interim_analyses), interim_analyses[index + 1]
        inside &= paths[index] <= t_isf(levels[-1] / 2, num_seeds - 1)
        earned = budget[index + 2] - budget[index + 1]
        crossing, level = round(earned * _PATHS), max(earned, _LEAST)
        if crossing >= _FEWEST:
            left = paths[index + 1][inside]
            bound = np.partition(left, len(left) - crossing)[len(left) - crossing]
            level = max(level, float(2 * t_sf(bound, after - 1)))
        levels.append(level)
    return tuple(levels)


@lru_cache(maxsize=4)
def _paths(interim_analyses: tuple[int, ...]) -> NDArray[np.float32]:
    """The size of t at each interim analysis, of studies in which nothing differs."""
    rng = np.random.default_rng(_DRAWN_WITH)
    result = np.empty((len(interim_analyses), _PATHS), dtype=np.float32)
    total, within, before = np.zeros(_PATHS), np.zeros(_PATHS), 0
    for index, num_seeds in enumerate(interim_analyses):
        new = num_seeds - before
        added = rng.normal(scale=np.sqrt(new), size=_PATHS)
        if before:
            within += new * before / num_seeds * (total / before - added / new) ** 2
        if new > 1:
            within += rng.chisquare(new - 1, size=_PATHS)
        total, before = total + added, num_seeds
        result[index] = np.abs(total) / np.sqrt(num_seeds * within / (num_seeds - 1))
    return result
