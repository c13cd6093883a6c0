"""The share of written texts that are a label at all."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

READABLE = Metric(name="readable", direction="max", best=1.0, over="rows")
