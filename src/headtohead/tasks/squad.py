"""Exact match and F1 of texts, as the official scripts of SQuAD compute them: version 1.1 where every question has an
answer (Rajpurkar et al. 2016, https://arxiv.org/abs/1606.05250), version 2.0 where some have none (Rajpurkar et al.
2018, https://arxiv.org/abs/1806.03822)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> str:
    """In small letters, without punctuation and articles, words one space apart."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(predicted: str, truth: str) -> bool:
    return normalised(predicted) == normalised(truth)


def f1(predicted: str, truth: str) -> float:
    """Of the words that both have, as often as both have them."""
    words, wanted = normalised(predicted).split(), normalised(truth).split()
    shared = (Counter(words) & Counter(wanted)).total()
    return 2 * shared / (len(words) + len(wanted)) if shared else 0.0


def f1_or_nothing(predicted: str, truth: str) -> float:
    """The same, and right where neither says anything."""
    if not normalised(predicted) or not normalised(truth):
        return float(exact_match(predicted, truth))
    return f1(predicted, truth)


@dataclass(frozen=True)
class Score:
    exact_match: float
    f1: float


def score(predicted: str, answers: Sequence[str]) -> Score:
    """Of a question that has an answer: the best over all that count as right."""
    return Score(float(any(exact_match(predicted, true) for true in answers)), max(f1(predicted, t) for t in answers))


def score_or_nothing(predicted: str, answers: Sequence[str]) -> Score:
    """Of a question that may have none: then saying nothing is right, and all else wrong."""
    told = [answer for answer in answers if normalised(answer)] or [""]
    return Score(
        float(any(exact_match(predicted, true) for true in told)), max(f1_or_nothing(predicted, t) for t in told)
    )
