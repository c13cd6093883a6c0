"""Rows are divided into blocks of tokens, each beside its neighbours, so that attention within a window is a batch of
small dense ones (Beltagy et al. 2020, https://arxiv.org/abs/2004.05150).

While decoding, a cache stores the last tokens of a row with their positions among its real tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from headtohead.components.component import Context, State
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


CachedTokens = tuple[Tensor, Tensor, Tensor, Tensor]
"""Keys and values, where they stand, and which of them there are."""


@dataclass
class WindowedCache(State):
    """Keys and values by their tokens' positions among the real tokens of a row, the newest replacing the oldest."""

    keys: Float[Tensor, "B G M K"] | None = None
    values: Float[Tensor, "B G M K"] | None = None
    positions: Int[Tensor, "B M"] | None = None
    count: Int[Tensor, " B"] | None = None
    """Real tokens of each row so far."""

    def put(
        self,
        k: Float[Tensor, "B G 1 K"],
        v: Float[Tensor, "B G 1 K"],
        positions: Int[Tensor, "#B 1"],
        *,
        first: bool = False,
    ) -> None:
        """Write one token per row at its position, which the next one overwrites if this one is not counted.

        Where there is no room, the newest replaces the oldest; a state of the `first` tokens drops it instead.
        """
        keys, values, known, count = self.held(k.shape[1])
        room = known.shape[1]
        row, slot = torch.arange(len(k), device=k.device), count.clamp(max=room - 1) if first else count % room
        fits = (count < room)[:, None, None] if first else torch.ones_like(count, dtype=torch.bool)[:, None, None]
        for cache, new in ((keys, k), (values, v)):
            cache[row, :, slot] = torch.where(fits, new[:, :, 0].to(cache.dtype), cache[row, :, slot])
        known[row, slot] = torch.where(fits[:, 0, 0], positions.expand(len(k), -1)[:, 0], known[row, slot])

    def fill(self, k: Float[Tensor, "B G L K"], v: Float[Tensor, "B G L K"], positions: Int[Tensor, "#B L"]) -> None:
        """Store the last tokens of a prompt whose real tokens are on the left; `count` is the number of these."""
        keys, values, known, count = self.held(k.shape[1])
        last, room = count[:, None] - 1, known.shape[1]
        slots = torch.arange(min(room, k.shape[2]), device=k.device)
        source = (last - (last - slots) % room).clamp(min=0)
        index = source[:, None, :, None]
        for cache, new in ((keys, k), (values, v)):
            cache[:, :, : len(slots)] = new.gather(2, index.expand(-1, k.shape[1], -1, k.shape[3])).to(cache.dtype)
        known[:, : len(slots)] = positions.expand(len(k), -1).gather(1, source)

    def start(self, k: Float[Tensor, "B G T K"], v: Float[Tensor, "B G T K"], positions: Int[Tensor, "#B L"]) -> None:
        """Store the first tokens of a prompt whose real tokens are on the left."""
        keys, values, known, _ = self.held(k.shape[1])
        length = k.shape[2]
        keys[:, :, :length], values[:, :, :length], known[:, :length] = k, v, positions[:, :length]

    def read(self, context: Context, length: int) -> None:
        """Counts the tokens that were read, and those of them that are real."""
        assert self.count is not None, "a state comes from initial_state"
        self.length += length
        self.count = self.count + (length if context.valid is None else context.valid.sum(1))

    def last_tokens(self, least: int = 0) -> CachedTokens:
        """Return the last tokens, the newest included; the mask holds only those of at least position `least`."""
        assert self.keys is not None and self.values is not None and self.positions is not None
        used = min(self.positions.shape[1], self.length + 1)
        there = self.slot_positions(used) >= least
        return self.keys[:, :, :used], self.values[:, :, :used], self.positions[:, :used], there

    def first_tokens(self) -> CachedTokens:
        """Return the first tokens, the newest included."""
        assert self.keys is not None and self.values is not None
        assert self.positions is not None and self.count is not None
        there = torch.arange(self.positions.shape[1], device=self.count.device) <= self.count[:, None]
        return self.keys, self.values, self.positions, there

    def held(self, num_heads: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return all tensors of the cache, for the heads that this device has."""
        assert self.keys is not None and self.values is not None, "a state comes from initial_state"
        assert self.positions is not None and self.count is not None, "a state comes from initial_state"
        if num_heads < self.keys.shape[1]:
            self.keys, self.values = self.keys[:, :num_heads], self.values[:, :num_heads]
        return self.keys, self.values, self.positions, self.count

    def slot_positions(self, used: int) -> Int[Tensor, "B M"]:
        """Return the position of what each of the first slots holds, counted from the newest token; below 0 the slot is
        empty."""
        assert self.positions is not None and self.count is not None, "a state comes from initial_state"
        now = self.count[:, None]
        return now - (now - torch.arange(used, device=now.device)) % self.positions.shape[1]


def empty_state(
    batch_size: int, num_heads: int, room: int, width: int, *, device: torch.device, dtype: torch.dtype
) -> WindowedCache:
    shape = (batch_size, num_heads, room, width)
    keys, values = (torch.zeros(shape, device=device, dtype=dtype) for _ in range(2))
    positions, count = (torch.zeros(size, device=device, dtype=torch.long) for size in ((batch_size, room), batch_size))
    return WindowedCache(0, keys, values, positions, count)


@dataclass
class FirstAndLastCache(WindowedCache):
    """The last tokens, and the first ones apart."""

    first: WindowedCache = field(default_factory=WindowedCache)

    def read(self, context: Context, length: int) -> None:
        super().read(context, length)
        self.first.count = self.count
