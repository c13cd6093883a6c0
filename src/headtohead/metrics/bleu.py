"""BLEU of a whole split, from 0 to 1 (Papineni et al. 2002, https://aclanthology.org/P02-1040)."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

BLEU = Metric(name="bleu", direction="max", best=1.0, over="words", headline=2)
