"""The words that an answer shares with the true one, as an F1, as a mean over questions."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

F1 = Metric(name="f1", direction="max", best=1.0, over="questions", any_tokenizer=True)
