"""The share of hidden tokens that are restored."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

MASKED_ACCURACY = Metric(name="masked_accuracy", direction="max", best=1.0, over="hidden tokens")
