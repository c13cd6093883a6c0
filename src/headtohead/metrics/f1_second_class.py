"""The F1 of finding the second of two classes, as published for MRPC and QQP."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

F1_SECOND_CLASS = Metric(name="f1_second_class", direction="max", best=1.0, over="rows", any_tokenizer=True)
