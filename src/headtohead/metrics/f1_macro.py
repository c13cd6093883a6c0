"""The harmonic mean of precision and recall of a class, as a mean over the classes."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

F1_MACRO = Metric(name="f1_macro", direction="max", best=1.0, over="classes", any_tokenizer=True)
