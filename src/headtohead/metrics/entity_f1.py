"""The harmonic mean of the precision and the recall of entities."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

ENTITY_F1 = Metric(name="entity_f1", direction="max", best=1.0, over="entities", headline=6)
