"""Tokens left out at random, as word dropout of text encoders (Iyyer et al. 2015, https://aclanthology.org/P15-1162)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from jaxtyping import Bool

from headtohead.data.augmentation.contracts import Draws, checked_rate
from headtohead.data.augmentation.token_rows import OfTokens, texts_of, without
from headtohead.data.batch import IGNORED, Batch
from headtohead.data.contracts import DataError, DataSource
from headtohead.ranges import Probability

OUTSIDE = "O"


class TokenDropping(OfTokens):
    """Each token with this probability, but never all of a text. Of a corpus, what is left is what is predicted. Of
    tagged words only those outside of entities are left out, whole and with their tags: what is left of an entity would
    have tags that begin nowhere."""

    data_kinds: ClassVar[tuple[str, ...]] = ("language", "labelled_text", "tagged_text", "pairs_of_text")
    cannot: ClassVar[dict[str, str]] = {
        "questions": "its answers are marked by their places, which would move: use span_masking",
    }

    def __init__(self, rate: Probability = 0.1) -> None:
        self.rate = checked_rate(rate, "steps.token_dropping.rate")

    def bind(self, source: DataSource) -> None:
        super().bind(source)
        if self.spec.kind == "tagged_text" and OUTSIDE not in self.spec.class_names:
            raise DataError(
                f"augmentation=token_dropping leaves out words tagged {OUTSIDE}, and the tags of this data are "
                f"{', '.join(self.spec.class_names)}: use span_masking"
            )

    def __call__(self, batch: Batch, draws: Draws) -> Batch:
        can = self.changeable(batch)
        dropped = can & (draws.uniform(can.shape[1]) < self.rate)
        if self.spec.kind == "tagged_text":
            dropped = can & self._words(batch, dropped)
        for text in texts_of(batch):
            dropped &= ~text | (can & text & ~dropped).any(1, keepdims=True)
        return without(batch, dropped)

    def _words(self, batch: Batch, chosen: Bool[np.ndarray, "B L"]) -> Bool[np.ndarray, "B L"]:
        """All tokens of each word whose first token was chosen, outside of entities."""
        assert batch.targets is not None
        tags = batch.targets.numpy()
        firsts = np.maximum.accumulate(np.where(tags != IGNORED, np.arange(tags.shape[1]), 0), axis=1)
        out = chosen & (tags == self.spec.class_names.index(OUTSIDE))
        words: np.ndarray = np.take_along_axis(out, firsts, axis=1)
        return words
