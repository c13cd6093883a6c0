"""The share of entities that are found, with their bounds and type."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

ENTITY_RECALL = Metric(name="entity_recall", direction="max", best=1.0, over="entities")
