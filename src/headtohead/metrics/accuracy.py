"""The share of rows whose label is right."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

ACCURACY = Metric(name="accuracy", direction="max", best=1.0, over="rows", any_tokenizer=True, headline=1)
