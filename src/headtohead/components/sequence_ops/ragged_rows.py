"""These functions separate rows of unequal length: documents packed into one row, and padding."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.components.component import Context
from headtohead.components.without_memory import has_values, packing


def find_document_starts(context: Context) -> Bool[Tensor, "B L"] | None:
    """Return a mask of the first token of every document but a row's first; None where rows are not packed."""
    if context.segments is None:
        return None
    changes = context.segments[:, 1:] != context.segments[:, :-1]
    return torch.nn.functional.pad(changes, (1, 0), value=False)


@dataclass(frozen=True)
class DocumentRows:
    """Documents, each in a row of its own, padded on the right."""

    x: Float[Tensor, "N T D"]
    valid: Bool[Tensor, "N T"]
    row: Int[Tensor, "B L"]
    """The row to which each token of the packed rows has gone."""
    index: Int[Tensor, "B L"]

    def back(self, y: Float[Tensor, "N T E"]) -> Float[Tensor, "B L E"]:
        """Pack the outputs of the documents again."""
        return y[self.row, self.index]


def one_row_per_document(x: Float[Tensor, "B L D"], context: Context) -> DocumentRows | None:
    """Split packed documents into rows, for mixers that cannot forget inside a row; None where rows are not packed."""
    document_starts = find_document_starts(context)
    if document_starts is None:
        return None
    batch, length = document_starts.shape
    number = document_starts.long().cumsum(1)
    counts = number[:, -1] + 1
    row = number + (counts.cumsum(0) - counts)[:, None]
    index = torch.arange(length, device=x.device).expand(batch, -1)
    position = index - torch.where(document_starts, index, 0).cummax(1).values
    has_numbers = has_values(position)
    num_rows, longest = (int(counts.sum()), int(position.max()) + 1) if has_numbers else packing().sizes(batch, length)
    apart = x.new_zeros(num_rows, longest, x.shape[-1]).index_put((row, position), x)
    real = torch.ones_like(document_starts) if context.valid is None else context.valid
    valid = torch.zeros(num_rows, longest, dtype=torch.bool, device=x.device).index_put((row, position), real)
    return DocumentRows(apart, valid, row, position)


def reversed_order(valid: Bool[Tensor, "B L"] | None, length: int, device: torch.device) -> Int[Tensor, "#B L"]:
    """Return the indices of a row's real tokens, last to first; padding, on the right, stays where it is."""
    index = torch.arange(length, device=device)[None]
    if valid is None:
        return index.flip(1)
    last = valid.sum(1, keepdim=True) - 1
    return torch.where(index <= last, last - index, index)


def reordered(x: Tensor, order: Int[Tensor, "#B L"]) -> Tensor:
    """Return x[B, L, ...] in another order, row by row."""
    return x[torch.arange(x.shape[0], device=x.device)[:, None], order.expand(x.shape[0], -1)]


# Rows of unequal length are read together: padding, wherever it is, moves behind a row's real tokens, which are
# then read as if they had come alone.


@dataclass(frozen=True)
class Unpadded:
    """New tokens with the real ones of each row first."""

    x: Float[Tensor, "B L D"]
    num_real: Int[Tensor, " B"]
    order: Int[Tensor, "B L"]

    def back(self, y: Float[Tensor, "B L E"]) -> Float[Tensor, "B L E"]:
        """Return the outputs at the tokens' original positions; those at padding are meaningless."""
        return reordered(y, self.order.argsort(1))


def unpadded_rows(x: Float[Tensor, "B L D"], valid: Bool[Tensor, "B L"] | None) -> Unpadded | None:
    """Move real tokens to the left; None where all tokens are real."""
    return None if valid is None or bool(valid.all()) else left_aligned(x, valid)


def left_aligned(x: Float[Tensor, "B L D"], valid: Bool[Tensor, "B L"]) -> Unpadded:
    """Return the rows with padding on the right, without reading the mask's values, for which a GPU would wait."""
    order = (~valid).long().argsort(dim=1, stable=True)
    return Unpadded(reordered(x, order), valid.sum(1), order)


def in_order(context: Context, order: Int[Tensor, "B L"]) -> Context:
    """Return the context of the tokens in another order."""
    valid, segments, positions = (
        None if of_tokens is None else reordered(of_tokens.expand(len(order), -1), order)
        for of_tokens in (context.valid, context.segments, context.positions)
    )
    return replace(context, valid=valid, segments=segments, positions=positions)
