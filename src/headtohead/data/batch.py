"""The one thing that data hands to training: a batch, with a field for each thing that a model may read."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.data.asked import Asked

IGNORED = -100
"""The target that no loss and no metric counts."""


@dataclass(frozen=True)
class Batch:
    """Rows of one split. A field that does not apply is None.

    `tokens` are what the encoder or decoder reads, `decoder_tokens` what the decoder of an encoder-decoder reads.
    `targets` are aligned with the outputs: [B, L] (or [B, T]) for tokens, [B] for labels; IGNORED where nothing counts;
    [B, 2] for the first and last token of an answer; numbers [B] for scores.
    """

    rows: Int[Tensor, "B"]
    """Which row of the split each sample is: fixes every random choice about it."""
    tokens: Int[Tensor, "B L"] | None = None
    targets: Int[Tensor, "..."] | Float[Tensor, "B"] | None = None
    original_tokens: Int[Tensor, "B L"] | None = None
    """The tokens of a text before an augmentation hid or replaced some: what is predicted where tokens are."""
    soft_targets: Float[Tensor, "B classes"] | None = None
    """Of mixed images: the share of each class, in place of `targets`, which say whose the image was."""
    labels: Int[Tensor, "B"] | None = None
    """What a second objective reads beside the targets: whether the second sentence follows the first."""
    lost_tags: Int[Tensor, "B R"] | None = None
    """Tags of words that their rows had no room for, IGNORED behind them: they are not read, and still looked for."""
    valid: Bool[Tensor, "B L"] | None = None
    """True where a token is real; padding is on the right. None means all are."""
    segments: Int[Tensor, "B L"] | None = None
    """Document numbers of packed rows."""
    positions: Int[Tensor, "B L"] | None = None
    """Place of each token in its own document, for packed rows."""
    token_types: Int[Tensor, "B L"] | None = None
    """Segment embeddings' index: first or second sentence of a pair."""
    decoder_tokens: Int[Tensor, "B T"] | None = None
    decoder_valid: Bool[Tensor, "B T"] | None = None
    images: Float[Tensor, "B C H W"] | None = None
    num_bytes: Int[Tensor, ""] | None = None
    """UTF-8 bytes that the counted targets stand for, for bits per byte."""
    asked: tuple[Asked, ...] | None = None
    """Of questions, in words: one for each row."""

    MODEL_INPUTS = (
        "tokens", "valid", "segments", "positions", "token_types", "decoder_tokens", "decoder_valid", "images",
    )  # fmt: skip

    def inputs(self) -> dict[str, Tensor]:
        """The keyword arguments for the model."""
        return {name: value for name in self.MODEL_INPUTS if (value := getattr(self, name)) is not None}

    def map(self, move: Any) -> Batch:
        """A batch with every tensor passed through `move`."""
        tensors = {f.name: getattr(self, f.name) for f in fields(self) if isinstance(getattr(self, f.name), Tensor)}
        return replace(self, **{name: move(tensor) for name, tensor in tensors.items()})

    def chosen(self, rows: Int[Tensor, " N"]) -> Batch:
        """Some of its rows, in this order; what is one number for all stays as it is."""
        asked = None if self.asked is None else tuple(self.asked[row] for row in rows.tolist())
        return replace(self.map(lambda tensor: tensor[rows] if tensor.ndim else tensor), asked=asked)

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> Batch:
        return self.map(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        return self.map(lambda tensor: tensor.pin_memory())

    @property
    def num_samples(self) -> int:
        return len(self.rows)

    @property
    def lengths(self) -> list[tuple[int, int]]:
        """Real tokens that the model reads of every row, in `tokens` and in `decoder_tokens`; 0 where it has none."""
        sides = ((self.tokens, self.valid), (self.decoder_tokens, self.decoder_valid))
        return list(zip(*(_row_lengths(tokens, valid, self.num_samples) for tokens, valid in sides), strict=True))

    @property
    def num_tokens(self) -> int:
        """Real tokens that the model reads, both sides together; for images, 0."""
        return sum(map(sum, self.lengths))


def _row_lengths(tokens: Tensor | None, valid: Tensor | None, num_rows: int) -> list[int]:
    if tokens is None:
        return [0] * num_rows
    return [tokens.shape[1]] * num_rows if valid is None else valid.sum(1).tolist()
