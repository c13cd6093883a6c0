"""Values that a mean does not describe: seeds that split into two groups, or that are close to the best value."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headtohead.comparison.statistics.means import interval_of
from headtohead.errors import UsageError

Shape = Literal["ordinary", "bimodal", "saturated"]
_NEAR_BEST = 0.01
_APART = 0.5
_SOLVED = 0.9
"""Shares of the way from knowing nothing to the best."""
_FEWEST_UNSCALED, _FEWEST_IN_GROUP, _TIMES_APART = 6, 2, 4.0


@dataclass(frozen=True)
class MetricScale:
    """A metric scale runs from chance to the best value: (0.1, 1) for the accuracy over ten classes."""

    chance: float
    best: float

    def __post_init__(self) -> None:
        if self.chance == self.best:
            raise UsageError(f"chance and best are both {self.best}: a scale needs two ends")

    @property
    def span(self) -> float:
        """Return the way from chance to best."""
        return abs(self.best - self.chance)

    @property
    def solved_at(self) -> float:
        """Return the value from which on a seed has solved the task, unless a study says another: no value moves it."""
        return self.chance + _SOLVED * (self.best - self.chance)

    def gain(self, value: float) -> float:
        """Return how much better than chance a value is."""
        return value - self.chance if self.best > self.chance else self.chance - value


def shape_of(values: Sequence[float], scale: MetricScale | None = None) -> Shape:
    """Classify the values; without a scale, two groups are recognised from six seeds on, and only if they lie very far
    apart."""
    if len(values) < 2:
        return "ordinary"
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    gaps = np.diff(ordered)
    widest = int(gaps.argmax())
    if scale is None:
        return "bimodal" if _far_apart(ordered, widest) else "ordinary"
    if gaps[widest] > _APART * scale.span:
        return "bimodal"
    near = np.abs(ordered - scale.best) <= _NEAR_BEST * scale.span
    return "saturated" if 2 * near.sum() >= len(ordered) else "ordinary"


def _far_apart(ordered: np.ndarray, widest: int) -> bool:
    low, high = ordered[: widest + 1], ordered[widest + 1 :]
    if len(ordered) < _FEWEST_UNSCALED or min(len(low), len(high)) < _FEWEST_IN_GROUP:
        return False
    return bool(high[0] - low[-1] > _TIMES_APART * max(np.ptp(low), np.ptp(high)))


Floats = NDArray[np.float64]
LEVEL = 0.05
"""The share of normal studies that is called skewed."""
FEWEST = 3
"""Values of an arm that can be skewed at all."""
_DRAWN, _DRAWN_WITH = 20_000, 0
_SIMULATED_TO = 64
"""Seeds up to which normal samples themselves are drawn; the skewness of larger ones is drawn from its own law."""
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
    skewness = sum(float(_skewness(arm) ** 2) for arm in spread)
    return bool(np.mean(_of_normal(tuple(sorted(map(len, spread)))) >= skewness) < LEVEL)


def _skewness(values: Floats) -> Floats:
    """Return the third standardised moment along the last axis."""
    centred = values - values.mean(axis=-1, keepdims=True)
    scaled = centred / np.abs(centred).max(axis=-1, keepdims=True)
    return np.asarray((scaled**3).mean(axis=-1) / (scaled**2).mean(axis=-1) ** 1.5)


@lru_cache(maxsize=256)
def _of_normal(sizes: tuple[int, ...]) -> Floats:
    rng = np.random.default_rng(_DRAWN_WITH)
    result = np.zeros(_DRAWN)
    for size in sizes:
        drawn = _skewness(rng.normal(size=(_DRAWN, size))) if size <= _SIMULATED_TO else _drawn_skewness(rng, size)
        result += drawn**2
    return result


def _drawn_skewness(rng: np.random.Generator, size: int) -> Floats:
    """Draw the skewness of normal samples without drawing the samples: the transformation of D'Agostino (1970,
    https://doi.org/10.1093/biomet/57.3.679) makes it a standard normal, and is inverted here."""
    n = float(size)
    kurtosis = 3 * (n**2 + 27 * n - 70) * (n + 1) * (n + 3) / ((n - 2) * (n + 5) * (n + 7) * (n + 9))
    squared = math.sqrt(2 * (kurtosis - 1)) - 1
    delta, alpha = 1 / math.sqrt(math.log(squared) / 2), math.sqrt(2 / (squared - 1))
    scale = math.sqrt((n + 1) * (n + 3) / (6 * (n - 2)))
    return np.asarray(alpha * np.sinh(rng.normal(size=_DRAWN) / delta) / scale)


_SMALLEST_GAIN = 0.05
"""The share of the way from chance to best that counts as learning, where no margin says what matters."""
_LARGEST_GAIN = 0.5
"""The share that counts in any case, where a margin is about as long as the way."""


def is_near_chance(
    values: Sequence[float | None], scale: MetricScale, *, margin: float | None = None, level: float = 0.05
) -> bool:
    """Return whether the interval of the arm's mean minus chance leaves room for a gain that is too small to matter, or
    for none; None is a run that diverged. An arm of which some seed has solved the task has learned it."""
    gains = [scale.gain(value) for value in values if value is not None]
    if not gains:
        return bool(values)
    if max(gains) >= scale.gain(scale.solved_at):
        return False
    enough = _SMALLEST_GAIN * scale.span if margin is None else min(margin, _LARGEST_GAIN * scale.span)
    interval = interval_of(gains, level)
    return (float(np.mean(gains)) if interval is None else interval[0]) < enough
