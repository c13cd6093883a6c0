"""Which blocks of a row look at which: neighbours, the first and the last, and some drawn at random
(Zaheer et al. 2020, https://arxiv.org/abs/2007.14062)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def adjacent(
    counts: Int[Tensor, " R"], number: int, num_random: int, seed: Int[Tensor, ""], *, causal: bool
) -> Bool[Tensor, "R N N"]:
    """True where a block of queries looks at a block of keys, in rows of so many real blocks each of `number`.

    A causal pattern knows nothing of what comes later, so that a longer row begins like a shorter one: no last block,
    random ones among those before; its mask inside blocks is not applied here.
    """
    block = torch.arange(number, device=counts.device)
    at, of, last = block[:, None], block[None, :], counts[:, None, None] - 1
    if causal:
        certain = ((at == of) | (at == of + 1) | (of == 0)).expand(len(counts), -1, -1)
        free = ~certain & (of < at)
    else:
        certain = ((at - of).abs() <= 1) | (of == 0) | (of == last) | (at == 0) | (at == last)
        free = ~certain & (of < last)
    noise = mixed_bits(at, of, seed).masked_fill(~free, -1)
    chosen = noise.topk(min(num_random, number), dim=-1).indices
    return certain | (free & torch.zeros_like(certain).scatter(-1, chosen, True))


def mixed_bits(at: Int[Tensor, "N 1"], of: Int[Tensor, "1 N"], seed: Int[Tensor, ""]) -> Int[Tensor, "N N"]:
    """Random numbers from 0 that depend on their place and the seed alone: no generator, no order of drawing."""
    bits = seed + at * 0x9E3779B1 + of * 0x85EBCA77
    for factor in (0x2C1B3C6D, 0x297A2D39):
        bits = ((bits ^ (bits >> 15)) * factor) & 0x7FFFFFFF
    return bits ^ (bits >> 16)


def neighbours(pattern: Bool[Tensor, "R N N"], most: int) -> tuple[Int[Tensor, "R N S"], Bool[Tensor, "R N S"]]:
    """The blocks of keys of every block of queries, at most so many, and which of these there are."""
    found = pattern.long().sort(dim=-1, descending=True, stable=True)
    return found.indices[..., :most], found.values[..., :most].bool()
