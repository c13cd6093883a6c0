"""Contexts that are longer than a row, as windows that overlap, so that every answer lies whole in some window
(Devlin et al. 2019, https://arxiv.org/abs/1810.04805)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headtohead.data.storage import Ragged
from headtohead.data.tokenizers import Tokenizer

FRAME = 3
"""A start token, and an end token after each of the two parts."""


@dataclass(frozen=True)
class Windows:
    """By row: which question it asks, and which stretch of that question's context it shows."""

    question: np.ndarray
    begins: np.ndarray
    lengths: np.ndarray

    @classmethod
    def of(cls, room: np.ndarray, lengths: np.ndarray, stride: int | None) -> Windows:
        """For contexts of these lengths where a row has this much room; windows begin `stride` tokens apart, half
        a window where none is given, and leave nothing out."""
        step = np.maximum(room // 2 if stride is None else np.minimum(room, stride), 1)
        counts = 1 + np.maximum(-(-(lengths - room) // step), 0)
        question = np.repeat(np.arange(len(lengths)), counts)
        place = np.arange(len(question)) - np.repeat(np.cumsum(counts) - counts, counts)
        begins = place * step[question]
        return cls(question, begins, np.minimum(lengths[question] - begins, room[question]))

    def __len__(self) -> int:
        return len(self.question)

    def cut(self, contexts: Ragged, context_of: np.ndarray) -> Ragged:
        """Their tokens; `context_of` says which context belongs to which question."""
        starts = contexts.offsets[context_of[self.question]] + self.begins
        cut = Ragged.of_lengths(contexts.values[:0], self.lengths)
        places = np.arange(cut.offsets[-1]) + np.repeat(starts - cut.offsets[:-1], self.lengths)
        return Ragged(contexts.values[places], cut.offsets)

    def spans(self, of_questions: np.ndarray) -> np.ndarray:
        """First and last token of an answer, counted from the window's begin; the place after the window's last token
        where it does not hold the whole answer, or there is none (-1)."""
        spans = of_questions[self.question] - self.begins[:, None]
        is_whole = (spans[:, 0] >= 0) & (spans[:, 1] < self.lengths) & (of_questions[self.question, 0] >= 0)
        return np.where(is_whole[:, None], spans, self.lengths[:, None])


def character_ends(text: str, tokens: np.ndarray, tokenizer: Tokenizer) -> np.ndarray:
    """Where in a text each of its tokens ends, in characters; one that several tokens share belongs to the first."""
    ends = tokenizer.ends(text, tokens)
    if tokenizer.kind == "char" or text.isascii():
        return ends
    begins = np.cumsum([0, *(len(sign.encode()) for sign in text)])[:-1]
    return np.searchsorted(begins, ends, side="left")
