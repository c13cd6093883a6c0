"""The best value of each result on its way, and its last, beside the one that the run reports."""

from __future__ import annotations

import math
from collections.abc import Mapping

from headtohead.metrics import metric_named

_STAGES = ("train/", "validation/")


class Extremes:
    """min/validation/loss or max/validation/accuracy, as the metric says, and last/...: scalars, since W&B's own
    summaries by `define_metric` turn a result into a mapping, which neither sweeps nor tables then find by its name."""

    def __init__(self) -> None:
        self._held: dict[str, float] = {}

    def take(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            metric = metric_named(name) if name.startswith(_STAGES) else None
            if metric is None or metric.direction is None:
                continue
            self._held[f"last/{name}"] = value
            best = f"{metric.direction}/{name}"
            if math.isfinite(value):
                held = self._held.get(best, value)
                self._held[best] = value if metric.is_better(value, held) else held

    def told(self) -> dict[str, float]:
        """For W&B's summary."""
        return dict(self._held)
