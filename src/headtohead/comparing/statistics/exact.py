"""Exact tests of a difference of means, which assume no shape: flipped signs of paired differences (Fisher 1935, The
Design of Experiments, section 21), and values dealt out to two unpaired arms anew.

Equal arms make every sign of a paired difference, and every way to deal unpaired values out, as likely as any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_MOST = 2**15
"""Ways up to which all are gone through; of more, this many are drawn."""
_DRAWN_WITH = 0
_ROUNDING = 1e-9
"""Sums that differ by less, as a share of their size, are ties."""


def exact_p(first: Sequence[float], second: Sequence[float], *, paired: bool) -> float:
    """Return the two-sided p-value against no difference; seed i of paired arms belongs together."""
    sums = _sums(first, second, paired=paired)
    return float(np.mean(np.abs(sums) >= abs(sums[0]) - _ROUNDING * np.abs(sums).max()))


def exact_p_equivalent(first: Sequence[float], second: Sequence[float], margin: float, *, paired: bool) -> float:
    """Return the larger p-value of the two one-sided tests against a difference of the margin or more."""
    above, below = ([value + shift for value in first] for shift in (margin, -margin))
    found = [(_sums(above, second, paired=paired), 1), (_sums(below, second, paired=paired), -1)]
    return max(float(np.mean(sign * (sums - sums[0]) >= -_ROUNDING * np.abs(sums).max())) for sums, sign in found)


def smallest_p(num_first: int, num_second: int, *, paired: bool) -> float:
    """Return the least that the two-sided test can give for so many seeds."""
    ways = 2**num_first if paired else math.comb(num_first + num_second, num_first)
    return 2 / min(ways, _MOST)


@lru_cache(maxsize=64)
def rearrangements(num_first: int, num_second: int, *, paired: bool) -> Floats:
    """Return a row of weights for each way to rearrange the values, the given one first: a difference of means is its
    product with the paired differences, or with the values of both arms, those of the first arm first."""
    if paired:
        return _signs(num_first) / num_first
    total = num_first + num_second
    if math.comb(total, num_first) <= _MOST:
        chosen = np.zeros((math.comb(total, num_first), total), dtype=bool)
        for row, places in enumerate(combinations(range(total), num_first)):
            chosen[row, list(places)] = True
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
    signs = np.random.default_rng(_DRAWN_WITH).choice([-1.0, 1.0], size=(_MOST, number))
    signs[0] = 1.0
    return signs


def _sums(first: Sequence[float], second: Sequence[float], *, paired: bool) -> Floats:
    weights = rearrangements(len(first), len(second), paired=paired)
    values = np.subtract(first, second) if paired else np.concatenate([first, second])
    return np.asarray(weights @ values, dtype=np.float64)
