"""The correlation of predicted with true scores."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

PEARSON = Metric(name="pearson", direction="max", best=1.0, over="rows", low=-1.0, chance=0.0, any_tokenizer=True)
