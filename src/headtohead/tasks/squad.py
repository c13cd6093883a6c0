"""Exact match and F1 of two texts, as the official script of SQuAD computes them (Rajpurkar et al. 2016,
https://arxiv.org/abs/1606.05250)."""

from __future__ import annotations

import re
import string
from collections import Counter

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
