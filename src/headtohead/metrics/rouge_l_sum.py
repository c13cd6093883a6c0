"""The longest subsequences that the sentences of a text share with those of its target, as an F-measure (Lin 2004)."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

ROUGE_L_SUM = Metric(name="rougeLsum", direction="max", best=1.0, over="texts")
