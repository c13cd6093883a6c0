"""The share of questions without an answer that are left unanswered."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

NO_ANSWER_ACCURACY = Metric(name="no_answer_accuracy", direction="max", best=1.0, over="questions", any_tokenizer=True)
