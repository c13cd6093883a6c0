"""Data hands a batch to training, with a field for each input that a model may read."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class QuestionText:
    """A question and the window of its context that one row shows. The windows of a question are consecutive rows."""

    number: int
    """The index of the question in its split."""
    id: str
    """The id in the data."""
    context: str
    """All of it, not the window alone."""
    answers: tuple[str, ...]
    """All that count as right; none where the context does not answer the question."""
    first: int
    """The token in the row at which the window begins."""
    edges: np.ndarray
    """The character of the context at which the window begins, then those at which each of its tokens ends."""

    def text(self, first: int, last: int) -> str:
        """Return the text from one position of the row to another, as the context has it."""
        begin, end = self.edges[first - self.first], self.edges[last - self.first + 1]
        return self.context[int(begin) : int(end)].strip()


IGNORED = -100
"""The target that no loss and no metric counts."""


@dataclass(frozen=True)
class Batch:
    """Rows of one split. A field that does not apply is None.

    `tokens` are what the encoder or decoder reads, `decoder_tokens` what the decoder of an encoder-decoder reads.
    `targets` are aligned with the outputs: [B, L] (or [B, T]) for tokens, [B] for labels; IGNORED where nothing counts;
    [B, 2] for the first and last token of an answer; numbers [B] for scores, or [B, K, E] for hidden patches.
    """

    rows: Int[Tensor, "B"]
    """The row of the split that each sample is: fixes every random choice about it."""
    tokens: Int[Tensor, "B L"] | None = None
    targets: Int[Tensor, "..."] | Float[Tensor, "..."] | None = None
    original_tokens: Int[Tensor, "B L"] | None = None
    """The tokens of a text before an augmentation hid or replaced some: what is predicted where tokens are."""
    soft_targets: Float[Tensor, "B classes"] | None = None
    """The shares of the classes of mixed images, in place of `targets`, which hold the first image's class."""
    draws: Float[Tensor, "B L"] | None = None
    """Numbers from 0 to 1 that fix a random choice about each token, where a task makes one after a model has run."""
    labels: Int[Tensor, "B"] | None = None
    """The labels that a second objective reads beside the targets: whether the second sentence follows the first."""
    lost_tags: Int[Tensor, "B R"] | None = None
    """Tags of words that their rows had no room for, IGNORED behind them: they are not read, and still looked for."""
    valid: Bool[Tensor, "B L"] | None = None
    """The mask of real tokens; padding is on the right. None means all are."""
    segments: Int[Tensor, "B L"] | None = None
    """Document numbers of packed rows."""
    positions: Int[Tensor, "B L"] | None = None
    """Place of each token in its own document, for packed rows."""
    token_types: Int[Tensor, "B L"] | None = None
    """Segment embeddings' index: first or second sentence of a pair."""
    decoder_tokens: Int[Tensor, "B T"] | None = None
    decoder_valid: Bool[Tensor, "B T"] | None = None
    images: Float[Tensor, "B C H W"] | None = None
    visible: Int[Tensor, "B N"] | None = None
    """The numbers of the patches of an image that the model sees, in their order. None means all."""
    num_bytes: Int[Tensor, ""] | None = None
    """UTF-8 bytes that the counted targets stand for, for bits per byte."""
    questions: tuple[QuestionText, ...] | None = None
    """The questions as text, one for each row."""

    MODEL_INPUTS = (
        "tokens", "valid", "segments", "positions", "token_types", "decoder_tokens", "decoder_valid", "images",
        "visible",
    )  # fmt: skip

    def inputs(self) -> dict[str, Tensor]:
        """Return the keyword arguments for the model."""
        return {name: value for name in self.MODEL_INPUTS if (value := getattr(self, name)) is not None}

    def map(self, move: Any) -> Batch:
        """Return a batch with every tensor passed through `move`."""
        tensors = {f.name: getattr(self, f.name) for f in fields(self) if isinstance(getattr(self, f.name), Tensor)}
        return replace(self, **{name: move(tensor) for name, tensor in tensors.items()})

    def chosen(self, rows: Int[Tensor, " N"]) -> Batch:
        """Return some of its rows, in this order; numbers that hold for all rows stay as they are."""
        questions = None if self.questions is None else tuple(self.questions[row] for row in rows.tolist())
        return replace(self.map(lambda tensor: tensor[rows] if tensor.ndim else tensor), questions=questions)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Batch:
        return self.map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        return self.map(lambda tensor: tensor.pin_memory())

    @property
    def num_samples(self) -> int:
        return len(self.rows)

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Return the real tokens that the model reads in every row, in `tokens` and in `decoder_tokens`; 0 where it has
        none."""
        sides = ((self.tokens, self.valid), (self.decoder_tokens, self.decoder_valid))
        return list(zip(*(_row_lengths(tokens, valid, self.num_samples) for tokens, valid in sides), strict=True))

    @property
    def num_tokens(self) -> int:
        """Return the real tokens that the model reads, both sides together; for images, 0."""
        return sum(map(sum, self.lengths))


def _row_lengths(tokens: Tensor | None, valid: Tensor | None, num_rows: int) -> list[int]:
    if tokens is None:
        return [0] * num_rows
    return [tokens.shape[1]] * num_rows if valid is None else valid.sum(1).tolist()
