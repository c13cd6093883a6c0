"""Values that a mean does not describe: seeds that split into two groups, or that press against the best there is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Shape = Literal["ordinary", "bimodal", "saturated"]
_NEAR_BEST = 0.01
_APART = 0.5
"""Shares of the way from knowing nothing to the best."""
_FEWEST_UNSCALED, _FEWEST_IN_GROUP, _TIMES_APART = 6, 2, 4.0


@dataclass(frozen=True)
class Scale:
    """What a model that learned nothing gets, and the best there is: (0.1, 1) for the accuracy over ten classes."""

    chance: float
    best: float

    def __post_init__(self) -> None:
        if self.chance == self.best:
            raise ValueError(f"chance and best are both {self.best}: a scale needs two ends")


@dataclass(frozen=True)
class Split:
    """How an arm's values lie, and the value that parts solved from unsolved seeds (None where nothing parts them)."""

    shape: Shape
    solved_at: float | None


def shape_of(values: Sequence[float], scale: Scale | None = None) -> Split:
    """Without a scale, two groups are called such from six seeds on, and only where they lie very far apart."""
    if len(values) < 2:
        return Split("ordinary", None)
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    gaps = np.diff(ordered)
    widest = int(gaps.argmax())
    middle = float(ordered[widest : widest + 2].mean())
    if scale is None:
        return Split("bimodal", middle) if _far_apart(ordered, widest) else Split("ordinary", None)
    span = abs(scale.best - scale.chance)
    if gaps[widest] > _APART * span:
        return Split("bimodal", middle)
    near = np.abs(ordered - scale.best) <= _NEAR_BEST * span
    if 2 * near.sum() >= len(ordered):
        return Split("saturated", scale.best - _NEAR_BEST * (scale.best - scale.chance))
    return Split("ordinary", None)


def _far_apart(ordered: np.ndarray, widest: int) -> bool:
    low, high = ordered[: widest + 1], ordered[widest + 1 :]
    if len(ordered) < _FEWEST_UNSCALED or min(len(low), len(high)) < _FEWEST_IN_GROUP:
        return False
    return bool(high[0] - low[-1] > _TIMES_APART * max(np.ptp(low), np.ptp(high)))
