"""Answers that were written instead of pointed at: exact match and F1 as SQuAD's script has them
(https://arxiv.org/abs/1606.05250)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from headtohead.metrics.answer_exact_match import ANSWER_EXACT_MATCH
from headtohead.metrics.answer_f1 import ANSWER_F1
from headtohead.tasks.squad import exact_match, f1
from headtohead.tasks.text_measures.contracts import TextMeasure


class WrittenAnswers(TextMeasure):
    """Case, punctuation and articles do not count."""

    metrics = (ANSWER_EXACT_MATCH, ANSWER_F1)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        return dict.fromkeys(("answers_exact", "answers_f1", "answers"), ())

    def sums(self, written: Sequence[str], truths: Sequence[str]) -> Mapping[str, Tensor | float]:
        pairs = list(zip(written, truths, strict=True))
        return {
            "answers_exact": sum(exact_match(text, truth) for text, truth in pairs),
            "answers_f1": sum(f1(text, truth) for text, truth in pairs),
            "answers": len(pairs),
        }

    def figures(self, sums: Mapping[str, Any]) -> dict[str, float]:
        count = sums["answers"]
        return {"answer_exact_match": sums["answers_exact"] / count, "answer_f1": sums["answers_f1"] / count}
