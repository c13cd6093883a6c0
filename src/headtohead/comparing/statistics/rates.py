"""Arms that solve a task or do not: exact tests on how many seeds solved it, and on how soon.

Means say little there: over three seeds of which 70 % solve it, a t interval covers 63 %, not 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np

_RESAMPLES = 20_000
"""All orders are gone through up to here (eight seeds an arm), so many are drawn beyond."""
_DRAWN_WITH = 0


@dataclass(frozen=True)
class Rates:
    """Solved seeds of two arms, the exact interval of each arm's rate, and the p-value against equal rates."""

    solved: tuple[int, int]
    of: tuple[int, int]
    intervals: tuple[tuple[float, float], ...]
    p: float


def solve_rates(solved: tuple[int, int], of: tuple[int, int], *, alpha: float = 0.05) -> Rates:
    """Fisher's exact test; shared seeds make arms agree more often than chance, which leaves it on the safe side."""
    from scipy import stats

    table = [[s, n - s] for s, n in zip(solved, of, strict=True)]
    exact = [stats.binomtest(s, n).proportion_ci(1 - alpha, method="exact") for s, n in zip(solved, of, strict=True)]
    intervals = tuple((float(rate.low), float(rate.high)) for rate in exact)
    return Rates(solved, of, intervals, float(stats.fisher_exact(table).pvalue))


def seeds_to_decide(level: float) -> int:
    """The fewest of each arm with which an exact test can fall below the level: of all ways to deal the seeds out, 2
    have all of one arm ahead of all of the other."""
    return next(n for n in count(1) if level * math.comb(2 * n, n) > 2)


def rank_test(first: Sequence[float | None], second: Sequence[float | None], *, larger_is_better: bool) -> float | None:
    """Permutation test on rank sums, two-sided. None (never solved, diverged) ranks worst; None if all seeds tie.

    Exact to eight seeds an arm, ties included; serves times to a solution and arms of which runs diverged.
    """
    from scipy import stats

    ranks = stats.rankdata([_worst_last(value, larger_is_better) for value in (*first, *second)])
    if np.ptp(ranks) == 0:
        return None
    split = len(first)
    if 1 in (split, len(second)):
        return _p_of_one(float(ranks[0] if split == 1 else ranks[-1]), ranks)

    def rank_sum(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:  # noqa: ARG001
        array: np.ndarray = x.sum(axis=axis)
        return array

    test = stats.permutation_test(
        (ranks[:split], ranks[split:]),
        rank_sum,
        vectorized=True,
        n_resamples=_RESAMPLES,
        rng=np.random.default_rng(_DRAWN_WITH),
    )
    return float(test.pvalue)


def _p_of_one(rank: float, ranks: np.ndarray) -> float:
    """Of an arm with a single run, which would have had any of the ranks as easily."""
    return min(1.0, 2 * float(min(np.mean(ranks <= rank), np.mean(ranks >= rank))))


def _worst_last(value: float | None, larger_is_better: bool) -> float:
    return np.inf if value is None else -value if larger_is_better else value
