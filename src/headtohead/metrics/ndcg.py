"""The discounted gain of a ranking over that of the best one, written ndcg@k (Järvelin and Kekäläinen 2002)."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

NDCG = Metric(name="ndcg", title="nDCG", direction="max", best=1.0, over="queries", any_tokenizer=True)
