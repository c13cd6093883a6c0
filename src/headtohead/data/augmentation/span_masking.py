"""Spans of tokens hidden behind the mask token, of lengths as SpanBERT's (Joshi et al. 2020,
https://arxiv.org/abs/1907.10529)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch

from headtohead.data.augmentation.contracts import Draws, checked_rate
from headtohead.data.augmentation.token_rows import OfTokens, reading
from headtohead.data.batch import Batch
from headtohead.data.contracts import DataError, DataSource
from headtohead.ranges import Positive, Probability


class SpanMasking(OfTokens):
    """Each token is hidden with this probability, together with its neighbours: spans have geometric lengths of this
    mean. Rows keep their length, and so tags and answers their places; the tokens of an answer stay in sight. Of a
    corpus the hidden tokens are predicted all the same, as behind the blanks of Xie et al. 2017
    (https://arxiv.org/abs/1703.02573)."""

    data_kinds: ClassVar[tuple[str, ...]] = ("language", "labelled_text", "tagged_text", "questions", "pairs_of_text")

    def __init__(self, rate: Probability = 0.15, mean_length: Positive = 3.0) -> None:
        self.rate, self.mean_length = checked_rate(rate, "steps.span_masking.rate"), mean_length
        begins = rate / (1 - rate) / mean_length if mean_length >= 1 else 2.0
        if begins > 1:
            raise DataError(
                f"augmentation.steps.span_masking.mean_length={mean_length} is too short to hide {rate:.0%} of all "
                f"tokens in spans that do not touch: give at least {max(1.0, rate / (1 - rate)):g}."
            )
        self._begins, self._ends = begins, 1 / mean_length

    def bind(self, source: DataSource) -> None:
        super().bind(source)
        if self.spec.mask_id < 0:
            raise DataError(
                "augmentation=span_masking hides tokens behind a mask token, and this tokenizer has none: use "
                "token_dropping"
            )

    def __call__(self, batch: Batch, draws: Draws) -> Batch:
        assert batch.tokens is not None
        can = self.changeable(batch)
        if self.spec.kind == "questions":
            assert batch.targets is not None
            place, (first, last) = np.arange(can.shape[1]), batch.targets.numpy().T[..., None]
            can &= (place < first) | (place > last)
        hidden = torch.from_numpy(can & self._spans(draws, can.shape[1]))
        return reading(batch, batch.tokens.masked_fill(hidden, self.spec.mask_id))

    def _spans(self, draws: Draws, length: int) -> np.ndarray:
        """A chain of two states, which begins as it goes on: every place is within a span with the same probability."""
        drawn = draws.uniform(length + 1)
        within = drawn[:, 0] < self.rate
        spans = np.empty((len(drawn), length), dtype=bool)
        for column in range(length):
            spans[:, column] = within
            within = drawn[:, column + 1] < np.where(within, 1 - self._ends, self._begins)
        return spans
