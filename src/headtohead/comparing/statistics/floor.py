"""Arms that have learned nothing: what two of them differ by says nothing of the task."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from headtohead.comparing.statistics.means import interval_of
from headtohead.comparing.statistics.shapes import Scale

_SMALLEST_GAIN = 0.05
"""The share of the way from chance to best that counts as learning, where no margin says what matters."""
_LARGEST_GAIN = 0.5
"""The share that counts in any case, where a margin is about as long as the way."""


def is_near_chance(
    values: Sequence[float | None], scale: Scale, *, margin: float | None = None, level: float = 0.05
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
