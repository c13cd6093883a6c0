"""A cache that stores each token with its position among the real tokens of its row: the last of them, or the first."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headtohead.components.component import Context, State

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
