"""These augmentations change the tokens of a row: drop, replace, swap or mask them."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool

from headtohead.data.augmentation.augmentation import AugmentedTokens, Draws, checked_rate, reading, texts_of, without
from headtohead.data.batches.batch import IGNORED, Batch
from headtohead.data.data_source import DataError, DataSource
from headtohead.data.row_formats.token_rows import as_tensor
from headtohead.ranges import Positive, Probability

OUTSIDE = "O"


class TokenDropping(AugmentedTokens):
    """Drop each token with this probability, but never all of a text. In a corpus, the remaining tokens are also the
    targets. In tagged sentences only words outside of entities are dropped, whole and with their tags: the rest of an
    entity would have tags that begin nowhere."""

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
        """Return a mask of all tokens of each word whose first token was chosen, outside of entities."""
        assert batch.targets is not None
        tags = batch.targets.numpy()
        first_tokens = np.maximum.accumulate(np.where(tags != IGNORED, np.arange(tags.shape[1]), 0), axis=1)
        out = chosen & (tags == self.spec.class_names.index(OUTSIDE))
        words: np.ndarray = np.take_along_axis(out, first_tokens, axis=1)
        return words


# Tokens replaced by others at random, as noise for language models (Xie et al. 2017,
# https://arxiv.org/abs/1703.02573), each word as likely.


class TokenReplacement(AugmentedTokens):
    """Each token becomes, with this probability, any token of the vocabulary that stands for text. In a corpus the
    original tokens stay the targets."""

    data_kinds: ClassVar[tuple[str, ...]] = ("language", "labelled_text", "pairs_of_text")
    cannot: ClassVar[dict[str, str]] = {
        "questions": "its answers are looked for by their words: use span_masking",
        "tagged_text": "a tag belongs to its word: use token_dropping or span_masking",
    }

    def __init__(self, rate: Probability = 0.1) -> None:
        self.rate = checked_rate(rate, "steps.token_replacement.rate")

    def bind(self, source: DataSource) -> None:
        super().bind(source)
        self._words = self.spec.text_ids.numpy()

    def __call__(self, batch: Batch, draws: Draws) -> Batch:
        assert batch.tokens is not None
        can = self.changeable(batch)
        replaced = can & (draws.uniform(can.shape[1]) < self.rate)
        words = self._words[(draws.uniform(can.shape[1], part=1) * len(self._words)).astype(np.int64)]
        return reading(batch, as_tensor(np.where(replaced, words, batch.tokens.numpy())))


# Pairs of tokens are swapped (random swap of Wei and Zou 2019, https://arxiv.org/abs/1901.11196).


class Swapping(AugmentedTokens):
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
                indices = np.flatnonzero(chosen[row] & text[row])
                indices = indices[np.argsort(order[row, indices])]
                first, second = indices[0 : len(indices) - 1 : 2], indices[1::2]
                tokens[row, first], tokens[row, second] = tokens[row, second], tokens[row, first]
        return replace(batch, tokens=as_tensor(tokens))


# Spans of tokens hidden behind the mask token, of lengths as SpanBERT's (Joshi et al. 2020,
# https://arxiv.org/abs/1907.10529).


class SpanMasking(AugmentedTokens):
    """Each token is hidden with this probability, together with its neighbours: spans have geometric lengths of this
    mean. Rows keep their length, and so tags and answers their positions; the tokens of an answer stay visible. In a
    corpus the hidden tokens stay targets, as behind the blanks of Xie et al. 2017
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
            index, (first, last) = np.arange(can.shape[1]), batch.targets.numpy().T[..., None]
            can &= (index < first) | (index > last)
        hidden = torch.from_numpy(can & self._spans(draws, can.shape[1]))
        return reading(batch, batch.tokens.masked_fill(hidden, self.spec.mask_id))

    def _spans(self, draws: Draws, length: int) -> np.ndarray:
        """Draw spans by a two-state Markov chain started in its stationary distribution: every position is within a
        span with the same probability."""
        drawn = draws.uniform(length + 1)
        within = drawn[:, 0] < self.rate
        spans = np.empty((len(drawn), length), dtype=bool)
        for column in range(length):
            spans[:, column] = within
            within = drawn[:, column + 1] < np.where(within, 1 - self._ends, self._begins)
        return spans
