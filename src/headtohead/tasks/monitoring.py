"""Which metric chooses the best checkpoint, and which way is better."""

from __future__ import annotations

from collections.abc import Sequence

from headtohead.errors import UsageError
from headtohead.metrics import Direction, Metric


def direction_of(monitor: str, metrics: Sequence[Metric]) -> Direction:
    """Return which way of the monitored metric is better; a ValueError names the choices."""
    known = {metric.name: metric.direction for metric in metrics if metric.direction is not None}
    if monitor not in known:
        raise UsageError(f"task.monitor={monitor!r} is no metric of this task: choose one of {', '.join(known)}.")
    return known[monitor]
