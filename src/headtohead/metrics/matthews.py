"""The correlation of predicted with true classes (Matthews 1975), as published for CoLA."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

MATTHEWS = Metric(name="matthews", direction="max", best=1.0, over="rows", low=-1.0, chance=0.0, any_tokenizer=True)
