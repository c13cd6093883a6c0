"""The bits that a model needs for each byte of text, which no tokenizer changes."""

from __future__ import annotations

import math

from headtohead.metrics.metric import Metric

BITS_PER_BYTE = Metric(name="bits_per_byte", direction="min", best=0.0, over="bytes", high=math.inf, any_tokenizer=True)
