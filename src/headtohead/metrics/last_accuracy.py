"""The share of rows whose last answer is right."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

LAST_ACCURACY = Metric(name="last_accuracy", direction="max", best=1.0, over="rows")
