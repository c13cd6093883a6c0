"""The words that a text shares with its target, as an F-measure (Lin 2004, https://aclanthology.org/W04-1013)."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

ROUGE1 = Metric(name="rouge1", direction="max", best=1.0, over="texts")
