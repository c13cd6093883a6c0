"""ROUGE: the words, pairs of words and longest subsequences that summaries share with their targets, as F-measures, the
mean over samples (Lin 2004, https://aclanthology.org/W04-1013)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor
from torchmetrics.functional.text import rouge_score

from headtohead.metrics.rouge1 import ROUGE1
from headtohead.metrics.rouge2 import ROUGE2
from headtohead.metrics.rouge_l import ROUGE_L
from headtohead.metrics.rouge_l_sum import ROUGE_L_SUM
from headtohead.tasks.text_measures.contracts import TextMeasure

_BY_TORCHMETRICS = (ROUGE1.name, ROUGE2.name, ROUGE_L.name)
_SENTENCES = re.compile(r"\n+|(?<=[.!?])\s+")
_NO_WORD = re.compile(r"[^a-z0-9]+")


class Rouge(TextMeasure):
    """Without stemming; words are of a to z and digits, in small letters. `rougeLsum` compares sentence by sentence:
    lines, and what ends with a stop, an exclamation or a question mark."""

    metrics = (ROUGE1, ROUGE2, ROUGE_L, ROUGE_L_SUM)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return dict.fromkeys((*self.names, "rouge_texts"), ())

    def sums(self, written: Sequence[str], truths: Sequence[str]) -> Mapping[str, Tensor | float]:
        found = dict.fromkeys(self.names, 0.0)
        for text, truth in zip(written, truths, strict=True):
            scores = rouge_score(text, truth, rouge_keys=_BY_TORCHMETRICS)
            for name in _BY_TORCHMETRICS:
                found[name] += float(scores[f"{name}_fmeasure"])
            found[ROUGE_L_SUM.name] += of_sentences(sentences(text), sentences(truth))
        return {**found, "rouge_texts": len(truths)}

    def figures(self, sums: Mapping[str, Any]) -> dict[str, float]:
        return {name: sums[name] / sums["rouge_texts"] for name in self.names}


def sentences(text: str) -> list[list[str]]:
    """As words."""
    return [words for part in _SENTENCES.split(text) if (words := _NO_WORD.sub(" ", part.lower()).split())]


def of_sentences(written: Sequence[Sequence[str]], truth: Sequence[Sequence[str]]) -> float:
    """Each true sentence's words that are in a longest subsequence with any written sentence, none counted more often
    than both sides have it."""
    said, there = (Counter(word for sentence in side for word in sentence) for side in (written, truth))
    if not said or not there:
        return 0.0
    met: Counter[str] = Counter()
    for sentence in truth:
        places = set[int]().union(*(shared_places(sentence, other) for other in written))
        met.update(sentence[place] for place in places)
    shared = (met & said & there).total()
    return 2 * shared / (said.total() + there.total())


def shared_places(sentence: Sequence[str], other: Sequence[str]) -> set[int]:
    """Places in the first of one longest subsequence of both; of several the one that is found from the end, a step
    back in the second only where that keeps more."""
    lengths = [[0] * (len(other) + 1)]
    for word in sentence:
        row, above = [0], lengths[-1]
        for place, theirs in enumerate(other):
            row.append(above[place] + 1 if word == theirs else max(above[place + 1], row[place]))
        lengths.append(row)
    places, here, there = set(), len(sentence), len(other)
    while here and there:
        if sentence[here - 1] == other[there - 1]:
            here, there = here - 1, there - 1
            places.add(here)
        elif lengths[here][there - 1] > lengths[here - 1][there]:
            there -= 1
        else:
            here -= 1
    return places
