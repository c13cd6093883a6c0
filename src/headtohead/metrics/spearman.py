"""The correlation of the ranks of predicted and true scores."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

SPEARMAN = Metric(
    name="spearman", direction="max", best=1.0, over="rows", low=-1.0, chance=0.0, any_tokenizer=True, headline=7
)
