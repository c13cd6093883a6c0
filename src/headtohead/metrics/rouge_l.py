"""The longest subsequence that a text shares with its target, as an F-measure (Lin 2004)."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

ROUGE_L = Metric(name="rougeL", direction="max", best=1.0, over="texts", headline=4)
