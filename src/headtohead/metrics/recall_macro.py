"""The share of a class that is found, as a mean over the classes."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

RECALL_MACRO = Metric(name="recall_macro", direction="max", best=1.0, over="classes", any_tokenizer=True)
