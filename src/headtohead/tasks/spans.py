"""Stretches of a row by the sum of two logits: of being the first token and of being the last."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.tasks.class_labels import wide


def top_spans(
    logits: Float[Tensor, "B L 2"], allowed: Bool[Tensor, "B L"], *, max_length: int, count: int
) -> tuple[Float[Tensor, "B K"], Int[Tensor, "B K 2"]]:
    """The best ones of at most `max_length` tokens that begin and end where it is allowed, the best first: their sums
    (minus infinity where there are no more) and their first and last tokens."""
    starts, ends = wide(logits).masked_fill(~allowed.unsqueeze(-1), -math.inf).unbind(-1)
    length = starts.shape[1]
    sums = starts.new_full((len(starts), min(max_length, length), length), -math.inf)
    for further in range(sums.shape[1]):
        sums[:, further, : length - further] = starts[:, : length - further] + ends[:, further:]
    flat = sums.flatten(1)
    best, places = flat.topk(min(count, flat.shape[1]), dim=1)
    first, further_ = places % length, places // length
    return best, torch.stack([first, first + further_], dim=2)
