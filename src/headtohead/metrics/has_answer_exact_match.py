"""The exact matches of questions that have an answer."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

HAS_ANSWER_EXACT_MATCH = Metric(
    name="has_answer_exact_match", direction="max", best=1.0, over="questions", any_tokenizer=True
)
