"""Differences of means over items that both measured, such as queries: the paired bootstrap (Sakai 2006,
https://doi.org/10.1145/1148170.1148261)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from headtohead.errors import UsageError

_AT_ONCE = 2**22
"""Numbers drawn at once."""


@dataclass(frozen=True)
class Resampled:
    """A difference and the interval that holds 1 - alpha of its resampled twins."""

    difference: float
    low: float
    high: float


def paired_bootstrap(
    first: ArrayLike, second: ArrayLike, *, seed: int = 0, samples: int = 5000, alpha: float = 0.05
) -> Resampled:
    """first - second; items are drawn with replacement, each with both its values. The same seed draws the same items,
    so that several differences over the same items belong together."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.shape != b.shape or a.ndim != 1 or not len(a):
        raise UsageError(f"paired values have shapes {a.shape} and {b.shape}: each item needs one value of both")
    differences = a - b
    generator = np.random.default_rng(seed)
    at_once = max(1, _AT_ONCE // len(a))
    means = np.empty(samples)
    for start in range(0, samples, at_once):
        drawn = generator.integers(len(a), size=(min(at_once, samples - start), len(a)))
        means[start : start + len(drawn)] = differences[drawn].mean(axis=1)
    low, high = np.quantile(means, [alpha / 2, 1 - alpha / 2])
    return Resampled(float(differences.mean()), float(low), float(high))
