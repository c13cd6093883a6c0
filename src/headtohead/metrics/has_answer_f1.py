"""The F1 of questions that have an answer."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

HAS_ANSWER_F1 = Metric(name="has_answer_f1", direction="max", best=1.0, over="questions", any_tokenizer=True)
