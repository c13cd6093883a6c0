"""Labels that were written as words: right where the text is the word, and no class where it is the word of none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from headtohead.data.contracts import DataSpec
from headtohead.metrics.accuracy import ACCURACY
from headtohead.metrics.f1_macro import F1_MACRO
from headtohead.metrics.readable import READABLE
from headtohead.tasks.text_measures.contracts import TextMeasure


class WrittenLabels(TextMeasure):
    """`f1_macro` is the mean over the classes; `readable` the share of texts that are a label at all."""

    metrics = (ACCURACY, F1_MACRO, READABLE)

    def __init__(self, words: Sequence[str]) -> None:
        self.words = [word.strip() for word in words]
        self._number_of = {word: number for number, word in enumerate(self.words)}

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """True classes below each other, written ones side by side, and texts that are none."""
        return {"label_counts": (len(self.words), len(self.words) + 1)}

    def sums(self, written: Sequence[str], truths: Sequence[str]) -> Mapping[str, Tensor | float]:
        counts = torch.zeros(self.shapes["label_counts"], dtype=torch.float64)
        for text, truth in zip(written, truths, strict=True):
            counts[self._number_of[truth.strip()], self._number_of.get(text.strip(), len(self.words))] += 1
        return {"label_counts": counts}

    def figures(self, sums: Mapping[str, Any]) -> dict[str, float]:
        counts = torch.tensor(sums["label_counts"], dtype=torch.float64)
        right, total = counts.diagonal(), float(counts.sum())
        sides = counts.sum(1) + counts[:, :-1].sum(0)
        return {
            "accuracy": float(right.sum()) / total,
            "f1_macro": float((2 * right / sides.clamp(min=1)).mean()),
            "readable": 1 - float(counts[:, -1].sum()) / total,
        }

    def of_a_row(self, sums: Mapping[str, Any]) -> dict[str, float]:
        """Of one label there is no F1."""
        return {"accuracy": self.figures(sums)["accuracy"]}

    def baseline(self, spec: DataSpec) -> dict[str, float]:
        """The most frequent label always."""
        share, count = max(spec.answer_shares, default=1 / len(self.words)), len(self.words)
        return {"accuracy": share, "f1_macro": 2 * share / (1 + share) / count, "readable": 1.0}
