"""chrF2 of a whole split: letters and up to six in a row that texts share with their targets (Popović 2015,
https://aclanthology.org/W15-3049), put together as sacrebleu does (https://github.com/mjpost/sacrebleu)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from headtohead.metrics.chrf import CHRF
from headtohead.tasks.text_measures.contracts import TextMeasure

ORDERS = 6
_BETA_SQUARED = 4.0
"""Recall weighs twice as much as precision."""


class Chrf(TextMeasure):
    """Counted here, since torchmetrics takes 8 ms a sentence for it, and this a thirtieth of that."""

    metrics = (CHRF,)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return dict.fromkeys(("chrf_right", "chrf_written", "chrf_wanted"), (ORDERS,))

    def sums(self, written: Sequence[str], truths: Sequence[str]) -> Mapping[str, Tensor | float]:
        counts = torch.tensor(
            [_counts(text, truth) for text, truth in zip(written, truths, strict=True)], dtype=torch.float64
        ).sum(0)
        return dict(zip(self.shapes, counts.T, strict=True))

    def figures(self, sums: Mapping[str, Any]) -> dict[str, float]:
        """The means over the orders that both sides are long enough for, put together."""
        counts = zip(*(sums[name] for name in self.shapes), strict=True)
        shares = [(right / written, right / wanted) for right, written, wanted in counts if written and wanted]
        if not shares:
            return {"chrf": 0.0}
        precision, recall = (sum(side) / len(shares) for side in zip(*shares, strict=True))
        whole = _BETA_SQUARED * precision + recall
        return {"chrf": (1 + _BETA_SQUARED) * precision * recall / whole if whole else 0.0}


def _counts(text: str, truth: str) -> list[tuple[int, int, int]]:
    """For each order how many rows of letters are right, written and wanted; spaces are none. An order that the truth
    is too short for asks nothing of the text."""
    text, truth = ("".join(side.split()) for side in (text, truth))
    counts = []
    for order in range(1, ORDERS + 1):
        said, there = (_rows(side, order) for side in (text, truth))
        counts.append(((said & there).total(), said.total() if there else 0, there.total()))
    return counts


def _rows(text: str, order: int) -> Counter[str]:
    return Counter(text[start : start + order] for start in range(len(text) - order + 1))
