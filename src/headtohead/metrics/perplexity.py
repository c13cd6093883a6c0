"""How many tokens a model wavers between: the exponential of the mean loss over tokens."""

from __future__ import annotations

import math

from headtohead.metrics.metric import Metric

PERPLEXITY = Metric(name="perplexity", direction="min", best=1.0, over="tokens", low=1.0, high=math.inf)
