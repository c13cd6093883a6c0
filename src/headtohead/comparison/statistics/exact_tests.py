"""Exact tests of a difference of means, which assume no shape: flipped signs of paired differences (Fisher 1935, The
Design of Experiments, section 21), and values dealt out again to two unpaired arms.

Equal arms make every sign of a paired difference, and every way to deal unpaired values out, as likely as any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, count

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
_MOST = 2**15
"""Ways up to which all are gone through; of more, this many are drawn."""
_DRAWN_WITH = 0
_AT_ONCE = 2**11
"""Ways that are drawn at once: all of them take three times the memory that they need in the end."""
_ROUNDING = 1e-9
"""Sums that differ by less, as a share of their size, are ties."""


def exact_p(first: Sequence[float], second: Sequence[float], *, paired: bool) -> float:
    """Return the two-sided p-value against no difference; seed i of paired arms belongs together."""
    sums = _sums(first, second, paired=paired)
    return float(np.mean(np.abs(sums) >= abs(sums[0]) - _ROUNDING * np.abs(sums).max()))


def exact_p_equivalent(first: Sequence[float], second: Sequence[float], margin: float, *, paired: bool) -> float:
    """Return the larger p-value of the two one-sided tests against a difference of the margin or more."""
    above, below = ([value + shift for value in first] for shift in (margin, -margin))
    sides = [(_sums(above, second, paired=paired), 1), (_sums(below, second, paired=paired), -1)]
    return max(float(np.mean(sign * (sums - sums[0]) >= -_ROUNDING * np.abs(sums).max())) for sums, sign in sides)


def smallest_p(num_first: int, num_second: int, *, paired: bool) -> float:
    """Return the least that the two-sided test can give for so many seeds."""
    ways = 2**num_first if paired else math.comb(num_first + num_second, num_first)
    return 2 / min(ways, _MOST)


@lru_cache(maxsize=8)
def rearrangements(num_first: int, num_second: int, *, paired: bool) -> Floats:
    """Return a row of weights for each way to rearrange the values, the given one first: a difference of means is its
    product with the paired differences, or with the values of both arms, those of the first arm first."""
    if paired:
        signs = _signs(num_first)
        signs /= num_first  # in place: of a thousand seeds it is a quarter of a gigabyte
        return signs
    total = num_first + num_second
    if math.comb(total, num_first) <= _MOST:
        chosen = np.zeros((math.comb(total, num_first), total), dtype=bool)
        for row, members in enumerate(combinations(range(total), num_first)):
            chosen[row, list(members)] = True
    else:
        rng = np.random.default_rng(_DRAWN_WITH)
        order = rng.permuted(np.tile(np.arange(total), (_MOST, 1)), axis=1)
        order[0] = np.arange(total)
        chosen = order < num_first
    return np.where(chosen, 1 / num_first, -1 / num_second)


def _signs(number: int) -> Floats:
    if 2**number <= _MOST:
        bits = np.arange(2**number)[:, None] >> np.arange(number) & 1
        return np.asarray(1.0 - 2.0 * bits, dtype=np.float64)
    rng, signs = np.random.default_rng(_DRAWN_WITH), np.empty((_MOST, number))
    for start in range(0, _MOST, _AT_ONCE):
        signs[start : start + _AT_ONCE] = rng.choice([-1.0, 1.0], size=(_AT_ONCE, number))
    signs[0] = 1.0
    return signs


def _sums(first: Sequence[float], second: Sequence[float], *, paired: bool) -> Floats:
    weights = rearrangements(len(first), len(second), paired=paired)
    values = np.subtract(first, second) if paired else np.concatenate([first, second])
    return np.asarray(weights @ values, dtype=np.float64)


FEWEST = 6
"""Seeds below which no exact test of paired signs falls below 5 %."""


@dataclass(frozen=True)
class ExactTestGuard:
    """An exact test of so many seeds."""

    num_seeds: tuple[int, int]
    """The number of seeds of both arms."""
    alpha: float
    """The error rate of the study."""
    level: float
    """The level that a p-value has to stay below whatever the rest of the family says, at this interim analysis."""
    paired: bool = True

    @property
    def takes_part(self) -> bool:
        """Return whether the test can agree at all."""
        return min(self.num_seeds) >= FEWEST and self._least < self.alpha

    @property
    def suffices(self) -> bool:
        """Return whether the test can decide by itself, so that no shape needs to be assumed."""
        return self.takes_part and self._least < self.level

    def agrees(self, p: ArrayLike) -> NDArray[np.bool_]:
        """Return where it does: at the family's level, or at the study's where it can reach no other."""
        return np.asarray(p) < (self.level if self.suffices else self.alpha)

    @property
    def _least(self) -> float:
        return smallest_p(*self.num_seeds, paired=self.paired)


@dataclass(frozen=True)
class SolveRates:
    """Solved seeds of two arms, the exact interval of each arm's rate, and the p-value against equal rates."""

    solved: tuple[int, int]
    of: tuple[int, int]
    intervals: tuple[tuple[float, float], ...]
    p: float


def solve_rates(solved: tuple[int, int], of: tuple[int, int], *, alpha: float = 0.05) -> SolveRates:
    """Fisher's exact test; shared seeds make arms agree more often than chance, which leaves it on the safe side."""
    from scipy import stats

    table = [[s, n - s] for s, n in zip(solved, of, strict=True)]
    exact = [stats.binomtest(s, n).proportion_ci(1 - alpha, method="exact") for s, n in zip(solved, of, strict=True)]
    intervals = tuple((float(rate.low), float(rate.high)) for rate in exact)
    return SolveRates(solved, of, intervals, float(stats.fisher_exact(table).pvalue))


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
