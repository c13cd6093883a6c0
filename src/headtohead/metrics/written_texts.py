"""Metrics of texts that a model wrote, against their targets."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

BLEU = Metric(name="bleu", direction="max", best=1.0, over="words", headline=2)
"""BLEU of a whole split, from 0 to 1 (Papineni et al. 2002, https://aclanthology.org/P02-1040)."""
CHRF = Metric(name="chrf", direction="max", best=1.0, over="letters", headline=3)
"""chrF2 of a whole split, from 0 to 1 (Popović 2015, https://aclanthology.org/W15-3049)."""
ROUGE1 = Metric(name="rouge1", direction="max", best=1.0, over="texts")
"""The words that a text shares with its target, as an F-measure (Lin 2004, https://aclanthology.org/W04-1013)."""
ROUGE2 = Metric(name="rouge2", direction="max", best=1.0, over="texts")
"""The pairs of words that a text shares with its target, as an F-measure (Lin 2004)."""
ROUGE_L = Metric(name="rougeL", direction="max", best=1.0, over="texts", headline=4)
"""The longest subsequence that a text shares with its target, as an F-measure (Lin 2004)."""
ROUGE_L_SUM = Metric(name="rougeLsum", direction="max", best=1.0, over="texts")
"""The longest subsequences that the sentences of a text share with those of its target, as an F-measure (Lin 2004)."""
READABLE = Metric(name="readable", direction="max", best=1.0, over="rows")
"""The share of written texts that are a valid label."""
