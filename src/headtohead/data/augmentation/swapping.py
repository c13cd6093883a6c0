"""Tokens that change places, two and two (random swap of Wei and Zou 2019, https://arxiv.org/abs/1901.11196)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from headtohead.data.augmentation.contracts import Draws, checked_rate
from headtohead.data.augmentation.token_rows import OfTokens, texts_of
from headtohead.data.batch import Batch
from headtohead.data.rows import as_tensor
from headtohead.ranges import Probability


class Swapping(OfTokens):
    """Each token is chosen with this probability, and the chosen ones of a text are exchanged in pairs at random; of an
    odd number one stays."""

    data_kinds: ClassVar[tuple[str, ...]] = ("labelled_text", "pairs_of_text")
    cannot: ClassVar[dict[str, str]] = {
        "language": "a token that comes too early would tell what is to be predicted: use token_replacement, "
        "token_dropping or span_masking",
        "questions": "its answers are marked by their places, which would move: use span_masking",
        "tagged_text": "a word's tag depends on the words around it: use token_dropping or span_masking",
    }

    def __init__(self, rate: Probability = 0.1) -> None:
        self.rate = checked_rate(rate, "steps.swapping.rate")

    def __call__(self, batch: Batch, draws: Draws) -> Batch:
        assert batch.tokens is not None
        tokens, can = batch.tokens.numpy().copy(), self.changeable(batch)
        chosen, order = can & (draws.uniform(can.shape[1]) < self.rate), draws.uniform(can.shape[1], part=1)
        for text in texts_of(batch):
            for row in range(len(tokens)):
                places = np.flatnonzero(chosen[row] & text[row])
                places = places[np.argsort(order[row, places])]
                first, second = places[0 : len(places) - 1 : 2], places[1::2]
                tokens[row, first], tokens[row, second] = tokens[row, second], tokens[row, first]
        return replace(batch, tokens=as_tensor(tokens))
