"""The words that a written answer shares with the true one, as an F1, as a mean over questions."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

ANSWER_F1 = Metric(name="answer_f1", direction="max", best=1.0, over="questions")
