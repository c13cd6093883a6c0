"""The share of predicted entities that are there, with their bounds and type."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

ENTITY_PRECISION = Metric(name="entity_precision", direction="max", best=1.0, over="entities")
