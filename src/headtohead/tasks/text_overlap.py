"""Text measures compare the texts that a model wrote with their targets: sums over samples, and metrics made of the
sums. Those here count what both share: BLEU, chrF2 and ROUGE."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torchmetrics.functional.text import rouge_score
from torchmetrics.text import SacreBLEUScore

from headtohead.data.data_source import DataSpec
from headtohead.metrics import Metric
from headtohead.metrics.generated_texts import BLEU, CHRF, ROUGE1, ROUGE2, ROUGE_L, ROUGE_L_SUM


class TextMetric(ABC):
    """A comparison of written texts with their targets, from sums over samples and devices."""

    metrics: ClassVar[tuple[Metric, ...]]
    """The metrics that it computes."""

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its figures."""
        return tuple(metric.name for metric in self.metrics)

    @property
    @abstractmethod
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes of its sums, by names that no other measure has."""

    @abstractmethod
    def sums(self, written: Sequence[str], truths: Sequence[str]) -> Mapping[str, Tensor | float]:
        """Return the sums over these samples."""

    @abstractmethod
    def figures(self, sums: Mapping[str, object]) -> dict[str, float]:
        """Return the metrics from the sums over all samples and devices."""

    def of_a_row(self, sums: Mapping[str, object]) -> dict[str, float]:
        """Return those metrics that mean something for a single sample."""
        return self.figures(sums)

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """Return the metrics of writing nothing."""
        del spec
        return dict.fromkeys(self.names, 0.0)


BLEU_ORDERS = 4


class Bleu(TextMetric):
    """BLEU without smoothing: 0 where no four consecutive words are right anywhere."""

    metrics = (BLEU,)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return {"bleu_right": (BLEU_ORDERS,), "bleu_written": (BLEU_ORDERS,), "bleu_words": (), "bleu_wanted": ()}

    def sums(self, written: Sequence[str], truths: Sequence[str]) -> Mapping[str, Tensor | float]:
        """Return torchmetrics' counts, in numbers that a batch cannot outgrow; our own sums over batches are wider."""
        counts = SacreBLEUScore(n_gram=BLEU_ORDERS, tokenize="13a")
        counts.update(list(written), [[truth] for truth in truths])
        return {
            "bleu_right": counts.numerator,
            "bleu_written": counts.denominator,
            "bleu_words": counts.preds_len,
            "bleu_wanted": counts.target_len,
        }

    def of_a_row(self, sums: Mapping[str, object]) -> dict[str, float]:
        """Return nothing, since a good sentence without four consecutive words of the true one would score 0."""
        del sums
        return {}

    def figures(self, sums: Mapping[str, Any]) -> dict[str, float]:
        if not all(sums["bleu_right"]):
            return {"bleu": 0.0}
        pairs = zip(sums["bleu_right"], sums["bleu_written"], strict=True)
        shares = math.exp(sum(math.log(right / written) for right, written in pairs) / BLEU_ORDERS)
        return {"bleu": shares * min(1.0, math.exp(1 - sums["bleu_wanted"] / sums["bleu_words"]))}


# chrF2 of a whole split: letters and up to six in a row that texts share with their targets (Popović 2015,
# https://aclanthology.org/W15-3049), put together as sacrebleu does (https://github.com/mjpost/sacrebleu).


CHRF_ORDERS = 6
_BETA_SQUARED = 4.0
"""Recall weighs twice as much as precision."""


class Chrf(TextMetric):
    """Counted here, since torchmetrics takes 8 ms a sentence for it, and this a thirtieth of that."""

    metrics = (CHRF,)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return dict.fromkeys(("chrf_right", "chrf_written", "chrf_wanted"), (CHRF_ORDERS,))

    def sums(self, written: Sequence[str], truths: Sequence[str]) -> Mapping[str, Tensor | float]:
        counts = torch.tensor(
            [_counts(text, truth) for text, truth in zip(written, truths, strict=True)], dtype=torch.float64
        ).sum(0)
        return dict(zip(self.shapes, counts.T, strict=True))

    def figures(self, sums: Mapping[str, object]) -> dict[str, float]:
        """Return the F-score of the mean precision and recall over the orders that both sides are long enough for."""
        counts = zip(*(sums[name] for name in self.shapes), strict=True)
        shares = [(right / written, right / expected) for right, written, expected in counts if written and expected]
        if not shares:
            return {"chrf": 0.0}
        precision, recall = (sum(side) / len(shares) for side in zip(*shares, strict=True))
        weighted = _BETA_SQUARED * precision + recall
        return {"chrf": (1 + _BETA_SQUARED) * precision * recall / weighted if weighted else 0.0}


def _counts(text: str, truth: str) -> list[tuple[int, int, int]]:
    """Return for each order how many character n-grams are right, written and expected, spaces left out. An order that
    the truth is too short for counts nothing."""
    text, truth = ("".join(side.split()) for side in (text, truth))
    counts = []
    for order in range(1, CHRF_ORDERS + 1):
        predicted, there = (_rows(side, order) for side in (text, truth))
        counts.append(((predicted & there).total(), predicted.total() if there else 0, there.total()))
    return counts


def _rows(text: str, order: int) -> Counter[str]:
    return Counter(text[start : start + order] for start in range(len(text) - order + 1))


# ROUGE: the words, pairs of words and longest subsequences that summaries share with their targets, as F-measures, the
# mean over samples (Lin 2004, https://aclanthology.org/W04-1013).


_BY_TORCHMETRICS = (ROUGE1.name, ROUGE2.name, ROUGE_L.name)
_SENTENCES = re.compile(r"\n+|(?<=[.!?])\s+")
_NO_WORD = re.compile(r"[^a-z0-9]+")


class Rouge(TextMetric):
    """ROUGE without stemming; words consist of a to z and digits, in lower case. `rougeLsum` compares sentence by
    sentence: lines, and text that ends with a stop, an exclamation or a question mark."""

    metrics = (ROUGE1, ROUGE2, ROUGE_L, ROUGE_L_SUM)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return dict.fromkeys((*self.names, "rouge_texts"), ())

    def sums(self, written: Sequence[str], truths: Sequence[str]) -> Mapping[str, Tensor | float]:
        totals = dict.fromkeys(self.names, 0.0)
        for text, truth in zip(written, truths, strict=True):
            scores = rouge_score(text, truth, rouge_keys=_BY_TORCHMETRICS)
            for name in _BY_TORCHMETRICS:
                totals[name] += float(scores[f"{name}_fmeasure"])
            totals[ROUGE_L_SUM.name] += of_sentences(sentences(text), sentences(truth))
        return {**totals, "rouge_texts": len(truths)}

    def figures(self, sums: Mapping[str, Any]) -> dict[str, float]:
        return {name: sums[name] / sums["rouge_texts"] for name in self.names}


def sentences(text: str) -> list[list[str]]:
    """Return the sentences of a text, each as a list of words."""
    return [words for part in _SENTENCES.split(text) if (words := _NO_WORD.sub(" ", part.lower()).split())]


def of_sentences(written: Sequence[Sequence[str]], truth: Sequence[Sequence[str]]) -> float:
    """Return the F-measure of the words in a longest common subsequence of any true with any written sentence, none
    counted more often than both sides have it."""
    predicted, there = (Counter(word for sentence in side for word in sentence) for side in (written, truth))
    if not predicted or not there:
        return 0.0
    met: Counter[str] = Counter()
    for sentence in truth:
        indices = set[int]().union(*(shared_indices(sentence, other) for other in written))
        met.update(sentence[index] for index in indices)
    shared = (met & predicted & there).total()
    return 2 * shared / (predicted.total() + there.total())


def shared_indices(sentence: Sequence[str], other: Sequence[str]) -> set[int]:
    """Return the indices, in the first sentence, of one longest common subsequence; among several, the one found from
    the end that steps back in the second sentence only where that keeps more."""
    lengths = [[0] * (len(other) + 1)]
    for word in sentence:
        row, above = [0], lengths[-1]
        for index, theirs in enumerate(other):
            row.append(above[index] + 1 if word == theirs else max(above[index + 1], row[index]))
        lengths.append(row)
    indices, here, there = set(), len(sentence), len(other)
    while here and there:
        if sentence[here - 1] == other[there - 1]:
            here, there = here - 1, there - 1
            indices.add(here)
        elif lengths[here][there - 1] > lengths[here - 1][there]:
            there -= 1
        else:
            here -= 1
    return indices
