"""The share of written answers that are right as texts."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

ANSWER_EXACT_MATCH = Metric(name="answer_exact_match", direction="max", best=1.0, over="questions")
