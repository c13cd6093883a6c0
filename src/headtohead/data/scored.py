"""Texts, or pairs of texts, with a number each: how alike two sentences are, how many stars a review gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headtohead.data.caching import Prepared
from headtohead.data.contracts import DataSpec, SplitName
from headtohead.data.judged import JudgedForm
from headtohead.data.storage import numbers
from headtohead.data.texts import Place, longest

Scored = tuple[str, float]
ScoredPair = tuple[str, str, float]


class ScoredForm(JudgedForm[Scored | ScoredPair]):
    """Each text has a grade, any number."""

    kind = "scored_text"
    judgment = "score"

    def __init__(self, max_length: int | None = None) -> None:
        self.max_length = max_length

    def judgments(
        self, samples: Mapping[SplitName, Sequence[Scored | ScoredPair]], place: Place
    ) -> tuple[Mapping[SplitName, np.ndarray], Mapping[str, Any]]:
        del place
        return {name: np.array([one[-1] for one in own], dtype=np.float64) for name, own in samples.items()}, {}

    def told(self, judgment: float, facts: Mapping[str, Any]) -> Any:
        del facts
        return judgment

    def spec(self, content: Prepared) -> DataSpec:
        scores = numbers(content.tables["train"], "score")
        return DataSpec(
            kind=self.kind,
            num_texts=2 if "first" in content.tables["train"] else 1,
            max_length=longest(content, "tokens"),
            score_mean=float(scores.mean()),
            score_deviation=float(scores.std()),
        )
