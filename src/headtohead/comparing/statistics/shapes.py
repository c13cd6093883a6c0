"""Values that a mean does not describe: seeds that split into two groups, or that press against the best there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headtohead.errors import UsageError

Shape = Literal["ordinary", "bimodal", "saturated"]
_NEAR_BEST = 0.01
_APART = 0.5
_SOLVED = 0.9
"""Shares of the way from knowing nothing to the best."""
_FEWEST_UNSCALED, _FEWEST_IN_GROUP, _TIMES_APART = 6, 2, 4.0


@dataclass(frozen=True)
class Scale:
    """What a model that learned nothing gets, and the best there is: (0.1, 1) for the accuracy over ten classes."""

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


def shape_of(values: Sequence[float], scale: Scale | None = None) -> Shape:
    """Without a scale, two groups are called such from six seeds on, and only where they lie very far apart."""
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
