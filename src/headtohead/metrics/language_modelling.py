"""Metrics of predicted tokens: the loss that training minimises, and what follows from it."""

from __future__ import annotations

import math

from headtohead.metrics.metric import Metric

_PER_TOKEN, _PER_HIDDEN_TOKEN, _NATS = "nats per token", "nats per hidden token", "nats"
_UNITS_OF_LOSS = {
    "causal_lm": _PER_TOKEN,
    "classification": _NATS,
    "compression": _PER_TOKEN,
    "contrastive_pairs": _NATS,
    "image_classification": _NATS,
    "masked_diffusion": _PER_TOKEN,
    "masked_image_modeling": "squared error",
    "masked_lm": _PER_HIDDEN_TOKEN,
    "masked_lm_next_sentence": _NATS,
    "multi_token_prediction": _PER_TOKEN,
    "multiple_choice": _NATS,
    "seq2seq": _PER_TOKEN,
    "seq2seq_at_once": _PER_TOKEN,
    "seq2seq_one_row": _PER_TOKEN,
    "similarity": "squared error of scores",
    "span_corruption": _PER_TOKEN,
    "span_corruption_one_row": _PER_TOKEN,
    "span_qa": _NATS,
    "tagging": _PER_TOKEN,
}
LOSS = Metric(name="loss", direction="min", best=0.0, over="targets", high=math.inf, units=_UNITS_OF_LOSS)
"""The objective that training minimises: the mean over everything scored, in nats, or in squared units of a score."""
PERPLEXITY = Metric(name="perplexity", direction="min", best=1.0, over="tokens", low=1.0, high=math.inf)
"""The exponential of the mean loss over tokens: the number of equally likely tokens that a model hesitates between."""
BITS_PER_BYTE = Metric(name="bits_per_byte", direction="min", best=0.0, over="bytes", high=math.inf, any_tokenizer=True)
"""The bits that a model needs for each byte of text, which no tokenizer changes."""
TOKEN_ACCURACY = Metric(name="token_accuracy", direction="max", best=1.0, over="tokens")
"""The share of tokens, or of tagged words, that are predicted right."""
MASKED_ACCURACY = Metric(name="masked_accuracy", direction="max", best=1.0, over="hidden tokens")
"""The share of hidden tokens that are restored."""
DETECTION_ACCURACY = Metric(name="detection_accuracy", direction="max", best=1.0, over="tokens")
"""The share of tokens of which the model tells rightly whether they were replaced."""
DETECTION_F1 = Metric(name="detection_f1", title="detection F1", direction="max", best=1.0, over="tokens")
"""The harmonic mean of precision and recall of finding replaced tokens."""
LAST_ACCURACY = Metric(name="last_accuracy", direction="max", best=1.0, over="rows")
"""The share of rows whose last answer is right."""
NEXT_SENTENCE_ACCURACY = Metric(name="next_sentence_accuracy", direction="max", best=1.0, over="rows")
"""The share of sentence pairs for which the model correctly predicts whether the second follows the first."""
