"""One over the rank of the first relevant document among k, written mrr@k."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

MRR = Metric(name="mrr", title="MRR", direction="max", best=1.0, over="queries", any_tokenizer=True)
