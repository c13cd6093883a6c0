"""The share of relevant documents among the first k of a ranking, written recall@k."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

RECALL = Metric(name="recall", direction="max", best=1.0, over="queries", any_tokenizer=True)
