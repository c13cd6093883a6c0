"""A source and what follows it as one row without a gap, for models that have one side."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headtohead.data.batch import IGNORED


def joined(
    first: Int[Tensor, "B S"],
    second: Int[Tensor, "B T"],
    valid: Bool[Tensor, "B S"] | None = None,
    second_valid: Bool[Tensor, "B T"] | None = None,
) -> tuple[Int[Tensor, "B L"], Bool[Tensor, "B L"], Int[Tensor, "B T"]]:
    """Tokens, which of them are real (padding is on the right), and where in its row each token of the second went."""
    lengths = torch.full((len(first), 1), first.shape[1]) if valid is None else valid.sum(1, keepdim=True)
    ends = torch.full((len(first), 1), second.shape[1]) if second_valid is None else second_valid.sum(1, keepdim=True)
    ends = ends + lengths
    places = torch.arange(first.shape[1] + second.shape[1])
    taken = torch.where(places < lengths, places, places - lengths + first.shape[1])
    tokens = torch.cat([first, second], 1).gather(1, taken.clamp(max=len(places) - 1))
    real = places < ends
    longest = int(ends.max())
    tokens = tokens.masked_fill(~real, 0)[:, :longest]
    return tokens, real[:, :longest], lengths + torch.arange(second.shape[1])


def laid_out(targets: Int[Tensor, "B T"], places: Int[Tensor, "B P"], length: int) -> Int[Tensor, "B L"]:
    """Return rows of this length with each target at its place, IGNORED elsewhere; places may outnumber targets."""
    counted = targets != IGNORED
    row, column = counted.nonzero(as_tuple=True)
    laid = torch.full((len(targets), length), IGNORED, dtype=targets.dtype)
    laid[row, places[row, column]] = targets[row, column]
    return laid


def taken_up(laid: Int[Tensor, "B L"]) -> Int[Tensor, "B T"]:
    """The other way: each row from its first target on, as long as the longest."""
    counted = laid != IGNORED
    longest = int(counted.sum(1).max())
    places = counted.int().argmax(1, keepdim=True) + torch.arange(longest, device=laid.device)
    taken = laid.gather(1, places.clamp(max=laid.shape[1] - 1))
    return taken.masked_fill(places >= laid.shape[1], IGNORED)
