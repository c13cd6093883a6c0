"""The pairs of words that a text shares with its target, as an F-measure (Lin 2004)."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

ROUGE2 = Metric(name="rouge2", direction="max", best=1.0, over="texts")
