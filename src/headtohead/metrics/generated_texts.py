"""Metrics of texts that a model wrote, and of answers to questions about a text, marked in it or written."""

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


BLEU = Metric(name="bleu", direction="max", best=1.0, over="words", headline=2)
"""BLEU of a whole split, from 0 to 1 (Papineni et al. 2002, https://aclanthology.org/P02-1040)."""
CHRF = Metric(name="chrf", direction="max", best=1.0, over="letters", headline=3)
"""chrF2 of a whole split, from 0 to 1 (Popović 2015, https://aclanthology.org/W15-3049)."""
ROUGE1 = Metric(name="rouge1", direction="max", best=1.0, over="texts")
"""The words that a text shares with its target, as an F-measure (Lin 2004, https://aclanthology.org/W04-1013)."""
ROUGE2 = Metric(name="rouge2", direction="max", best=1.0, over="texts")
"""The pairs of words that a text shares with its target, as an F-measure (Lin 2004)."""
ROUGE_L = Metric(name="rougeL", direction="max", best=1.0, over="texts", headline=4)
"""The longest subsequence that a text shares with its target, as an F-measure (Lin 2004)."""
ROUGE_L_SUM = Metric(name="rougeLsum", direction="max", best=1.0, over="texts")
"""The longest subsequences that the sentences of a text share with those of its target, as an F-measure (Lin 2004)."""
READABLE = Metric(name="readable", direction="max", best=1.0, over="rows")
"""The share of written texts that are a valid label."""
