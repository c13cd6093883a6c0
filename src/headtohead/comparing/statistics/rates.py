"""Arms that solve a task or do not: exact tests on how many seeds solved it, and on how soon.

Means say little there: over three seeds of which 70 % solve it, a t interval covers 63 %, not 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np


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
    """Exact permutation test on rank sums, two-sided, ties included. None (never solved, diverged) ranks worst; None if
    all seeds tie."""
    from scipy import stats

    ranks = stats.rankdata([_worst_last(value, larger_is_better) for value in (*first, *second)])
    if np.ptp(ranks) == 0:
        return None
    doubled = np.rint(2 * ranks).astype(int)
    ways = _rank_sums(doubled, len(first))
    at, total = int(doubled[: len(first)].sum()), ways.sum()
    return float(min(1.0, 2 * min(ways[: at + 1].sum(), ways[at:].sum()) / total))


def _rank_sums(ranks: np.ndarray, size: int) -> np.ndarray:
    """Return by its sum how many choices of so many of these whole numbers there are."""
    ways = np.zeros((size + 1, int(ranks.sum()) + 1))
    ways[0, 0] = 1.0
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank].copy()
    counts: np.ndarray = ways[size]
    return counts


def _worst_last(value: float | None, larger_is_better: bool) -> float:
    return np.inf if value is None else -value if larger_is_better else value
