"""The share of pairs of sentences of which the model says rightly whether the second follows the first."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

NEXT_SENTENCE_ACCURACY = Metric(name="next_sentence_accuracy", direction="max", best=1.0, over="rows")
