"""Metrics of answers to questions about a text, marked in the text or written."""

from __future__ import annotations

import math
from dataclasses import replace

from headtohead.metrics.metric import Metric

EXACT_MATCH = Metric(name="exact_match", direction="max", best=1.0, over="rows", headline=5)
"""The share of rows of which every target token is right; of questions, that of answers that are right as texts."""
EXACT_MATCH_OF_QUESTIONS = replace(EXACT_MATCH, over="questions", any_tokenizer=True)
"""Compares texts, as SQuAD's own scripts do."""
F1 = Metric(name="f1", direction="max", best=1.0, over="questions", any_tokenizer=True)
"""The words that an answer shares with the true one, as an F1, as a mean over questions."""
HAS_ANSWER_EXACT_MATCH = Metric(
    name="has_answer_exact_match", direction="max", best=1.0, over="questions", any_tokenizer=True
)
"""The exact matches of questions that have an answer."""
HAS_ANSWER_F1 = Metric(name="has_answer_f1", direction="max", best=1.0, over="questions", any_tokenizer=True)
"""The F1 of questions that have an answer."""
NO_ANSWER_ACCURACY = Metric(name="no_answer_accuracy", direction="max", best=1.0, over="questions", any_tokenizer=True)
"""The share of questions without an answer that are left unanswered."""
NO_ANSWER_THRESHOLD = Metric(
    name="no_answer_threshold", direction=None, best=None, over="questions", low=-math.inf, high=math.inf
)
"""The odds above which no answer is given: chosen on validation, and no measure of quality."""
ANSWER_EXACT_MATCH = Metric(name="answer_exact_match", direction="max", best=1.0, over="questions")
"""The share of written answers that are right as texts."""
ANSWER_F1 = Metric(name="answer_f1", direction="max", best=1.0, over="questions")
"""The words that a written answer shares with the true one, as an F1, as a mean over questions."""
