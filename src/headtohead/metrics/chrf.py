"""chrF2 of a whole split, from 0 to 1 (Popović 2015, https://aclanthology.org/W15-3049)."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

CHRF = Metric(name="chrf", direction="max", best=1.0, over="letters", headline=3)
