"""The share of tokens, or of tagged words, that are predicted right."""

from __future__ import annotations

from headtohead.metrics.metric import Metric

TOKEN_ACCURACY = Metric(name="token_accuracy", direction="max", best=1.0, over="tokens")
