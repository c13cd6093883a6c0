"""The order of a stream is a pure function of the seed and the step, found without reading more than a batch needs.

A corpus is read at several positions at once, its lanes, each with shards of its own. A lane goes through its shards in
an order given by the seed and the number of the pass, a window of some shards at a time, and draws the rows of a window
in random order: a shuffling buffer that is filled, emptied, and filled again, so that any step can be reached from the
sizes of the shards before it.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from headtohead.data.batches.row_order import Order, OrderedSplit, device_share, order_of
from headtohead.data.data_source import DataError
from headtohead.field_group import FieldGroup
from headtohead.ranges import Count, Positive, Rows

_ROW_BITS, _UNIT_BITS, _PASS_BITS = 32, 22, 9
"""The bits of a row's number, from the lowest: its index in its shard, the shard, and the pass in which it is read."""
_UNITS_STREAM, _ROWS_STREAM = 2, 3
"""Keep the two shufflings apart from other uses of the same seed."""


@dataclass(frozen=True)
class StreamFields(FieldGroup):
    """Options for reading a stream: so many lanes at once, each shuffled within a buffer, and how much of it is
    kept."""

    lanes: Count = 8
    shuffle_buffer: Rows = 10_000
    keep_gigabytes: Positive = 10.0

    def check(self, **counts: int | None) -> None:
        """Raise DataError where one of these, or of further counts of rows, is not an amount."""
        for field, value in {**counts, "lanes": self.lanes, "shuffle_buffer": self.shuffle_buffer}.items():
            if value is not None and value < 1:
                raise DataError(f"data.{field}={value} must be at least 1.")
        if self.keep_gigabytes <= 0:
            raise DataError(f"data.keep_gigabytes={self.keep_gigabytes} must be above 0.")


def numbers_of(shard: int, num_rows: int, in_pass: int = 0) -> np.ndarray:
    """Return the rows of a shard as numbers, the same under every seed, and different in each pass: whatever is drawn
    for a row by its number is then redrawn each time that it is read, whoever reads it and however far the other
    lanes are."""
    assert shard < 1 << _UNIT_BITS and num_rows <= 1 << _ROW_BITS, "a row's number has no room for more"
    pass_bits = in_pass % (1 << _PASS_BITS) << _UNIT_BITS
    return ((pass_bits + shard) << _ROW_BITS) + np.arange(num_rows, dtype=np.int64)


def shards_and_rows_of(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the shard of each row, and its index there."""
    return numbers >> _ROW_BITS & ((1 << _UNIT_BITS) - 1), numbers & ((1 << _ROW_BITS) - 1)


class ShardStream:
    """One of the positions at which a corpus is read: an endless sequence of the rows of its shards."""

    def __init__(
        self,
        shards: Sequence[int],
        num_rows: Callable[[int], int],
        prefetch: Callable[[Iterable[int]], None],
        *,
        window: int,
        seed: Sequence[int],
    ) -> None:
        """Set up the lane; `window` is in shards."""
        self._shards, self._num_rows, self._prefetch = np.asarray(shards), num_rows, prefetch
        self._window, self._seed = window, list(seed)
        self._per_pass = -(-len(shards) // window)
        self._ends: list[int] = []
        """The ends of the windows so far, as indices in the sequence."""
        self._rows = lru_cache(maxsize=2)(self._shuffled)
        self._pass = lru_cache(maxsize=2)(self._ordered)

    def take(self, start: int, stop: int) -> tuple[list[np.ndarray], int]:
        """Return the rows between two indices of the sequence, and the pass that the first of them belongs to."""
        taken, number = [], self._window_of(start)
        first_pass = number // self._per_pass
        while start < stop:
            number = self._window_of(start)
            begin, end = (self._ends[number - 1] if number else 0), self._ends[number]
            taken.append(self._rows(number)[start - begin : stop - begin])
            start = min(stop, end)
        return taken, first_pass

    def _window_of(self, index: int) -> int:
        while not self._ends or self._ends[-1] <= index:
            number = len(self._ends)
            if number == self._per_pass and not self._ends[-1]:
                raise DataError("a part of the stream holds no row: give more text, or fewer data.lanes.")
            size = sum(self._num_rows(shard) for shard in self._shards_in(number))
            self._ends.append((self._ends[-1] if number else 0) + size)
        return bisect_right(self._ends, index)

    def _shuffled(self, number: int) -> np.ndarray:
        self._prefetch(self._shards_in(number + 1))
        shards, in_pass = self._shards_in(number), number // self._per_pass
        rows = np.concatenate([numbers_of(shard, self._num_rows(shard), in_pass) for shard in shards])
        return np.random.default_rng([*self._seed, number, _ROWS_STREAM]).permutation(rows)

    def _shards_in(self, number: int) -> list[int]:
        in_pass, index = divmod(number, self._per_pass)
        result: list[int] = self._pass(in_pass)[index * self._window : (index + 1) * self._window].tolist()
        return result

    def _ordered(self, number: int) -> np.ndarray:
        return np.random.default_rng([*self._seed, number, _UNITS_STREAM]).permutation(self._shards)


class InterleavedSplit(OrderedSplit):
    """A split that is read at several positions at once."""

    @abstractmethod
    def lanes(self, seed: int) -> list[ShardStream]:
        """Return one or more lanes."""

    def order(self, *, batch_size: int, seed: int) -> Order:
        return StreamOrder(self, batch_size=batch_size, seed=seed)


class StreamOrder(Order):
    """Batches that take the same number of rows from every lane, as far as that divides; devices share the lanes out,
    so that each reads its own alone where their number divides that of the lanes."""

    def __init__(self, split: InterleavedSplit, *, batch_size: int, seed: int) -> None:
        self._split, self.batch_size, self._seed = split, batch_size, seed
        self._lanes = split.lanes(seed)

    def __reduce__(self) -> tuple[Callable[..., Order], tuple[Any, ...]]:
        """Pickle the split: another process rebuilds its lanes."""
        return partial(order_of, batch_size=self.batch_size, seed=self._seed), (self._split,)

    def drawn_in(self, epoch: int) -> int:
        """Return 0: the numbers of rows contain the pass, and the epoch would differ between devices, which read other
        lanes."""
        del epoch
        return 0

    def step(self, step: int, *, rank: int = 0, world_size: int = 1) -> tuple[int, np.ndarray]:
        """Return the epoch and the rows; the epoch is the number of whole passes of the slowest lane that the device
        reads."""
        draws = np.arange(step * self.batch_size, (step + 1) * self.batch_size)
        by_lane = draws[np.argsort(draws % len(self._lanes), kind="stable")]
        own = device_share(by_lane, rank=rank, world_size=world_size)
        rows: list[np.ndarray] = []
        passes = []
        for lane in np.unique(own % len(self._lanes)):
            indices = own[own % len(self._lanes) == lane] // len(self._lanes)
            taken, first_pass = self._lanes[lane].take(int(indices[0]), int(indices[-1]) + 1)
            rows += taken
            passes.append(first_pass)
        return min(passes, default=0), np.concatenate([np.zeros(0, dtype=np.int64), *rows])
