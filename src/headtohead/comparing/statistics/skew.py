"""Whether the values of a study are skewed, judged by all of its arms together: the few seeds of one show nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
LEVEL = 0.05
"""Of normal studies this share is called skewed."""
FEWEST = 3
"""Values of an arm that can be skewed at all."""
_DRAWN, _DRAWN_WITH = 20_000, 0
_ROUNDING = 1e-9
"""A spread smaller than this share of the values comes from rounding."""


def is_skewed(arms: Iterable[Sequence[float]]) -> bool:
    """Return whether the arms' squared skewnesses sum to more than those of nearly all normal studies of their sizes.

    Squares let arms that lean to either side add up, and hold their level where arms share what a seed brings.
    """
    values = [np.asarray(arm, dtype=np.float64) for arm in arms if len(arm) >= FEWEST]
    spread = [arm for arm in values if np.ptp(arm) > _ROUNDING * np.abs(arm).max()]
    if not spread:
        return False
    found = sum(float(_skewness(arm) ** 2) for arm in spread)
    return bool(np.mean(_of_normal(tuple(sorted(map(len, spread)))) >= found) < LEVEL)


def _skewness(values: Floats) -> Floats:
    """Return the third standardised moment along the last axis."""
    centred = values - values.mean(axis=-1, keepdims=True)
    scaled = centred / np.abs(centred).max(axis=-1, keepdims=True)
    return np.asarray((scaled**3).mean(axis=-1) / (scaled**2).mean(axis=-1) ** 1.5)


@lru_cache(maxsize=256)
def _of_normal(sizes: tuple[int, ...]) -> Floats:
    rng = np.random.default_rng(_DRAWN_WITH)
    found = np.zeros(_DRAWN)
    for size in sizes:
        found += _skewness(rng.normal(size=(_DRAWN, size))) ** 2
    return found
