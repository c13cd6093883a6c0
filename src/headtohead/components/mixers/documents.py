"""Documents packed into one row, for mixers that carry a state along it: where to forget, or how to part them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.components.contracts import Context


def starts(context: Context) -> Bool[Tensor, "B L"] | None:
    """True at the first token of every document but a row's first; None where rows are not packed."""
    if context.segments is None:
        return None
    changes = context.segments[:, 1:] != context.segments[:, :-1]
    return torch.nn.functional.pad(changes, (1, 0), value=False)


@dataclass(frozen=True)
class Rows:
    """Documents, each in a row of its own, padded on the right."""

    x: Float[Tensor, "N T D"]
    valid: Bool[Tensor, "N T"]
    row: Int[Tensor, "B L"]
    """Where each token of the packed rows has gone."""
    place: Int[Tensor, "B L"]

    def back(self, y: Float[Tensor, "N T E"]) -> Float[Tensor, "B L E"]:
        """What was made of the documents, packed again."""
        return y[self.row, self.place]


def by_document(x: Float[Tensor, "B L D"], context: Context) -> Rows | None:
    """Documents apart, for mixers that cannot forget inside a row; None where rows are not packed."""
    begins = starts(context)
    if begins is None:
        return None
    batch, length = begins.shape
    number = begins.long().cumsum(1)
    counts = number[:, -1] + 1
    row = number + (counts.cumsum(0) - counts)[:, None]
    index = torch.arange(length, device=x.device).expand(batch, -1)
    place = index - torch.where(begins, index, 0).cummax(1).values
    num_rows, longest = int(counts.sum()), int(place.max()) + 1
    apart = x.new_zeros(num_rows, longest, x.shape[-1]).index_put((row, place), x)
    real = torch.ones_like(begins) if context.valid is None else context.valid
    valid = torch.zeros(num_rows, longest, dtype=torch.bool, device=x.device).index_put((row, place), real)
    return Rows(apart, valid, row, place)


def reversed_order(valid: Bool[Tensor, "B L"] | None, length: int, device: torch.device) -> Int[Tensor, "#B L"]:
    """Places to read a row's real tokens from, last to first; padding, on the right, stays where it is."""
    index = torch.arange(length, device=device)[None]
    if valid is None:
        return index.flip(1)
    last = valid.sum(1, keepdim=True) - 1
    return torch.where(index <= last, last - index, index)


def reordered(x: Tensor, order: Int[Tensor, "#B L"]) -> Tensor:
    """x[B, L, ...] read in another order, row by row."""
    return x[torch.arange(x.shape[0], device=x.device)[:, None], order.expand(x.shape[0], -1)]
