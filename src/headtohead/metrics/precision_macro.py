"""The share of right answers among those that name a class, as a mean over the classes."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

PRECISION_MACRO = Metric(name="precision_macro", direction="max", best=1.0, over="classes", any_tokenizer=True)
