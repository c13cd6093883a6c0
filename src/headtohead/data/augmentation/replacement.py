"""Tokens replaced by others at random, as noise for language models (Xie et al. 2017,
https://arxiv.org/abs/1703.02573), each word as likely."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch

from headtohead.data.augmentation.contracts import Draws, checked_rate
from headtohead.data.augmentation.token_rows import OfTokens, reading
from headtohead.data.batch import Batch
from headtohead.data.contracts import DataSource
from headtohead.data.rows import as_tensor
from headtohead.ranges import Probability


class TokenReplacement(OfTokens):
    """Each token becomes, with this probability, any token of the vocabulary that stands for text. Of a corpus the
    tokens that stood there are predicted all the same."""

    data_kinds: ClassVar[tuple[str, ...]] = ("language", "labelled_text", "pairs_of_text")
    cannot: ClassVar[dict[str, str]] = {
        "questions": "its answers are looked for by their words: use span_masking",
        "tagged_text": "a tag belongs to its word: use token_dropping or span_masking",
    }

    def __init__(self, rate: Probability = 0.1) -> None:
        self.rate = checked_rate(rate, "steps.token_replacement.rate")

    def bind(self, source: DataSource) -> None:
        super().bind(source)
        every = torch.arange(self.spec.vocab_size)
        self._words = every[~self.spec.are_special(every)].numpy()

    def __call__(self, batch: Batch, draws: Draws) -> Batch:
        assert batch.tokens is not None
        can = self.changeable(batch)
        replaced = can & (draws.uniform(can.shape[1]) < self.rate)
        words = self._words[(draws.uniform(can.shape[1], part=1) * len(self._words)).astype(np.int64)]
        return reading(batch, as_tensor(np.where(replaced, words, batch.tokens.numpy())))
