"""The share of rows of which every target token is right; of questions, that of answers that are right as texts."""

from __future__ import annotations

from dataclasses import replace

from headtohead.metrics.metric import Metric

EXACT_MATCH = Metric(name="exact_match", direction="max", best=1.0, over="rows", headline=5)
OF_QUESTIONS = replace(EXACT_MATCH, over="questions", any_tokenizer=True)
"""Compares texts, as SQuAD's own scripts do."""
