"""The spans that are hidden in a row, and the row as source and target, as T5 has them (Raffel et al. 2020,
https://arxiv.org/abs/1910.10683; `random_spans_noise_mask` of
https://github.com/google-research/text-to-text-transfer-transformer)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Denoiser:
    """A share of a row to hide, in spans of this mean length; None: in one span, at its end."""

    density: float
    mean_length: float | None

    def sizes(self, lengths: Int[Tensor, " B"]) -> tuple[Int[Tensor, " B"], Int[Tensor, " B"]]:
        """Return how many tokens of rows of these lengths are hidden, and in how many spans; at least one token stays
        before each."""
        hidden = (lengths.double() * self.density).round().long().clamp(min=1).minimum((lengths - 1).clamp(min=0))
        spans = hidden.double() / self.mean_length if self.mean_length is not None else torch.ones(len(lengths))
        return hidden, spans.round().long().clamp(min=1).minimum(hidden).minimum(lengths - hidden)


@dataclass(frozen=True)
class HiddenSpans:
    """Masks of the hidden tokens of rows; rows begin with tokens that stay, and end with a span."""

    hidden: Bool[Tensor, "B L"]
    first: Bool[Tensor, "B L"]
    """The first token of each span."""
    lengths: Int[Tensor, " B"]


def draw_spans(
    lengths: Int[Tensor, " B"],
    hidden: Int[Tensor, " B"],
    spans: Int[Tensor, " B"],
    draws: tuple[Float[Tensor, "B L"], Float[Tensor, "B L"]],
) -> HiddenSpans:
    """Return spans of random lengths with random distances: each way to divide the hidden tokens into so many parts,
    and the others into as many, is as likely. `draws` are numbers in [0, 1)."""
    most = max(1, int(spans.max()))
    parts = torch.stack(
        [_divided(lengths - hidden, spans, draws[0], most), _divided(hidden, spans, draws[1], most)], dim=2
    )
    ends = parts.flatten(1).cumsum(1)
    positions = torch.arange(draws[0].shape[1]).expand(len(lengths), -1).contiguous()
    number = torch.searchsorted(ends, positions, right=True)
    is_hidden = (number % 2 == 1) & (positions < lengths[:, None])
    before = torch.cat([torch.zeros(len(lengths), 1, dtype=torch.bool), is_hidden[:, :-1]], dim=1)
    return HiddenSpans(is_hidden, is_hidden & ~before, lengths)


def _divided(
    total: Int[Tensor, " B"], parts: Int[Tensor, " B"], draws: Float[Tensor, "B L"], most: int
) -> Int[Tensor, "B N"]:
    """Return the lengths of so many parts of each total, none of them empty."""
    positions = torch.arange(draws.shape[1])
    may_begin = (positions >= 1) & (positions < total[:, None])
    rank = draws.masked_fill(~may_begin, 2.0).argsort(1).argsort(1)
    begins = may_begin & (rank < parts[:, None] - 1)
    lengths = torch.zeros(len(total), most, dtype=torch.long)
    counted = (positions < total[:, None]).long()
    return lengths.scatter_add_(1, begins.long().cumsum(1).clamp(max=most - 1), counted)


def source_of(
    tokens: Int[Tensor, "B L"], spans: HiddenSpans, sentinels: Sequence[int], eos_id: int
) -> tuple[Int[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """Return each row with a sentinel in place of each span and an end token, and the mask of real tokens."""
    marks = torch.tensor(sentinels)[(spans.first.cumsum(1) - 1).clamp(0, len(sentinels) - 1)]
    real = torch.arange(tokens.shape[1]) < spans.lengths[:, None]
    retained = real & (~spans.hidden | spans.first)
    ends = retained.sum(1)
    source = torch.zeros(len(tokens), int(ends.max()) + 1, dtype=tokens.dtype)
    row, position = retained.nonzero(as_tuple=True)
    shown = torch.where(spans.first, marks, tokens).to(tokens.dtype)
    source[row, retained.cumsum(1)[row, position] - 1] = shown[row, position]
    source[torch.arange(len(tokens)), ends] = eos_id
    return source, torch.arange(source.shape[1]) <= ends[:, None]


def target_of(
    tokens: Int[Tensor, "B L"], spans: HiddenSpans, sentinels: Sequence[int], eos_id: int
) -> tuple[Int[Tensor, "B T"], Bool[Tensor, "B T"]]:
    """Return the spans of each row, each behind its sentinel, and an end token; and the mask of real tokens."""
    number, index_of_hidden = spans.first.cumsum(1), spans.hidden.cumsum(1) - 1
    ends = spans.hidden.sum(1) + spans.first.sum(1)
    target = torch.zeros(len(tokens), int(ends.max()) + 1, dtype=tokens.dtype)
    row, position = spans.hidden.nonzero(as_tuple=True)
    target[row, (index_of_hidden + number)[row, position]] = tokens[row, position]
    row, position = spans.first.nonzero(as_tuple=True)
    marks = torch.tensor(sentinels, dtype=tokens.dtype)[number[row, position] - 1]
    target[row, (index_of_hidden + number - 1)[row, position]] = marks
    target[torch.arange(len(tokens)), ends] = eos_id
    return target, torch.arange(target.shape[1]) <= ends[:, None]
