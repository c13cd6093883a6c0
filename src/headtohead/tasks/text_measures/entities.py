"""Entities that were written as text, "PER: Anna Smith ; LOC: Oslo": right where type and words are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from headtohead.data.written_forms import entities_of
from headtohead.metrics.entity_f1 import ENTITY_F1
from headtohead.metrics.entity_precision import ENTITY_PRECISION
from headtohead.metrics.entity_recall import ENTITY_RECALL
from headtohead.tasks.entities import rates
from headtohead.tasks.text_measures.contracts import TextMeasure


class WrittenEntities(TextMeasure):
    """An entity that a text has twice must be written twice; the order is free."""

    metrics = (ENTITY_PRECISION, ENTITY_RECALL, ENTITY_F1)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return dict.fromkeys(("entities_right", "entities_written", "entities_there"), ())

    def sums(self, written: Sequence[str], truths: Sequence[str]) -> Mapping[str, Tensor | float]:
        sums: Counter[str] = Counter()
        for text, truth in zip(written, truths, strict=True):
            said, there = Counter(entities_of(text)), Counter(entities_of(truth))
            sums["entities_right"] += (said & there).total()
            sums["entities_written"] += said.total()
            sums["entities_there"] += there.total()
        return dict(sums)

    def figures(self, sums: Mapping[str, Any]) -> dict[str, float]:
        return dict(zip(self.names, rates(*(sums[name] for name in self.shapes)), strict=True))

    def of_a_row(self, sums: Mapping[str, Any]) -> dict[str, float]:
        """F1, and 1 where nothing is there and nothing was written, which is as good as can be."""
        is_empty = not sums["entities_written"] and not sums["entities_there"]
        return {"entity_f1": 1.0 if is_empty else self.figures(sums)["entity_f1"]}
