"""Rows are divided into blocks of tokens, each beside its neighbours, so that attention within a window is a batch of
small dense ones (Beltagy et al. 2020, https://arxiv.org/abs/2004.05150)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from headtohead.components.mixers.attention.fused_attention import attend


@dataclass(frozen=True)
class TokenBlocks:
    """N blocks of C tokens cover a row of L; the keys of a block are its own and so many blocks before and after."""

    length: int
    size: int
    before: int
    after: int

    @classmethod
    def around(cls, length: int, size: int, *, back: int, ahead: int) -> TokenBlocks:
        """Choose blocks such that every token finds those up to `back` before it and `ahead` after it."""
        size = max(1, min(size, length))
        others = -(-length // size) - 1
        return cls(length, size, min(-(-back // size), others), min(-(-ahead // size), others))

    @property
    def number(self) -> int:
        return -(-self.length // self.size)

    @property
    def span(self) -> int:
        """Return the number of keys of a block."""
        return (self.before + 1 + self.after) * self.size

    @property
    def padded_length(self) -> int:
        return self.number * self.size

    @property
    def padded_keys(self) -> int:
        return self.padded_length + (self.before + self.after) * self.size

    def queries(self, x: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H N C K"]:
        missing = self.padded_length - self.length
        if missing:  # token by token in memory, as outputs will be too: merging their heads then copies nothing
            x = F.pad(x.transpose(1, 2), (0, 0, 0, 0, 0, missing)).transpose(1, 2)
        y: Tensor = x.unflatten(2, (self.number, self.size))
        return y

    def keys(self, x: Float[Tensor, "B G L K"]) -> Float[Tensor, "B G N S K"]:
        """Return the keys of each block as views into one padded copy: neighbours overlap."""
        left, right = self.before * self.size, self.after * self.size + self.padded_length - self.length
        padded = F.pad(x, (0, 0, left, right)) if left + right else x
        return padded.unfold(2, self.span, self.size).transpose(-1, -2)

    def of_queries(self, x: Shaped[Tensor, "B L"]) -> Shaped[Tensor, "B N C"]:
        y: Tensor = F.pad(x, (0, self.padded_length - self.length)).unflatten(1, (self.number, self.size))
        return y

    def of_keys(self, x: Shaped[Tensor, "B L"]) -> Shaped[Tensor, "B N S"]:
        left, right = self.before * self.size, self.after * self.size + self.padded_length - self.length
        return F.pad(x, (left, right)).unfold(1, self.span, self.size)

    def indices(self, device: torch.device) -> tuple[Int[Tensor, "N C 1"], Int[Tensor, "N 1 S"]]:
        """Return the position of every query and of every key; those of padding are below 0 or from L on."""
        start = torch.arange(self.number, device=device)[:, None, None] * self.size
        keys = torch.arange(self.span, device=device) - self.before * self.size
        return start + torch.arange(self.size, device=device)[:, None], start + keys


def folded(x: Float[Tensor, "B H N C K"], *, by_row: bool) -> Float[Tensor, "X Y C K"]:
    """Fold blocks into a batch for a fused kernel: with rows among the heads so that rows share a mask, or both
    apart."""
    return x.transpose(1, 2).flatten(0, 1) if by_row else x.permute(2, 0, 1, 3, 4).flatten(1, 2)


def unfolded(y: Float[Tensor, "X Y C K"], batch: int, length: int, *, by_row: bool) -> Float[Tensor, "B H L K"]:
    """Undo `folded`."""
    if by_row:
        blocks = y.unflatten(0, (batch, -1)).transpose(1, 2)
    else:
        blocks = y.unflatten(1, (batch, -1)).permute(1, 2, 0, 3, 4)
    output: Tensor = blocks.flatten(2, 3)[:, :, :length]
    return output


def near(
    queries: Int[Tensor, "*N C 1"], keys: Int[Tensor, "*N 1 S"], *, back: int, ahead: int
) -> Bool[Tensor, "*N C S"]:
    """Return whether a key is at most `back` positions before its query and at most `ahead` after it."""
    distance = queries - keys
    return (distance <= back) & (distance >= -ahead)


def attend_blocks(
    q: Float[Tensor, "X Y C K"],
    k: Float[Tensor, "X Z S K"],
    v: Float[Tensor, "X Z S K"],
    *,
    bias: Float[Tensor, "#X #Y C S"],
    scale: float,
    dropout: float,
    cap: float | None = None,
) -> Float[Tensor, "X Y C K"]:
    """Attend within each block; heads that share keys become queries of one head, since repeated keys would take
    memory."""
    groups = q.shape[1] // k.shape[1]
    if groups == 1:
        return attend(q, k, v, bias=bias, causal=False, scale=scale, dropout=dropout, cap=cap)
    by_head = bias.shape[1] > 1
    bias = bias.unflatten(1, (-1, groups)).flatten(2, 3) if by_head else bias.repeat(1, 1, groups, 1)
    q = q.unflatten(1, (-1, groups)).flatten(2, 3)
    y = attend(q, k, v, bias=bias, causal=False, scale=scale, dropout=dropout, cap=cap)
    output: Tensor = y.unflatten(2, (groups, -1)).flatten(1, 2)
    return output
