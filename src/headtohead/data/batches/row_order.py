"""The rows of a batch are a pure function of the seed and the step, so that any step can be reached at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from headtohead.data.data_source import DataError, Split

# Random numbers depend on their row, never on which process draws them or when.
#
# A row's random choices follow from (seed, epoch, row, column, stream) alone, so they are the same on one process or
# eight, before a resume or after. The mixing function is SplitMix64 (Steele, Lea and Flood 2014,
# https://doi.org/10.1145/2714064.2660195).


_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def mix(z: np.ndarray) -> np.ndarray:
    """Mix numbers such that they look random; different ones stay different."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    array: np.ndarray = z ^ (z >> np.uint64(31))
    return array


def uniform(rows: np.ndarray, num_columns: int, *, seed: int, epoch: int, stream: int = 0) -> np.ndarray:
    """Return float64 numbers in [0, 1), one for each row and column; `stream` separates independent uses."""
    with np.errstate(over="ignore"):
        key = np.zeros(1, dtype=np.uint64)
        for part in (seed, epoch, stream):
            key = mix(key + _GAMMA + np.uint64(part))
        per_row = mix(key + _GAMMA * (rows.astype(np.uint64) + np.uint64(1)))[:, None]
        bits = mix(per_row + _GAMMA * (np.arange(num_columns, dtype=np.uint64) + np.uint64(1))[None, :])
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


_ORDER_STREAM = 1
"""Keeps the shuffling apart from other uses of the same seed."""
_BUCKET = 64
"""Batches whose rows are sorted by length together: little padding, and batches still differ from epoch to epoch."""


class Order(ABC):
    """The rows of every step of a run."""

    batch_size: int

    @abstractmethod
    def step(self, step: int, *, rank: int = 0, world_size: int = 1) -> tuple[int, np.ndarray]:
        """Return the epoch of an optimizer step, counted from 0 over the whole run, and the row numbers of its batch,
        or of one device's part of it."""

    def passes_after(self, step: int, epoch: int) -> int:
        """Return how many passes over the rows are complete after a step of this epoch: those before it, where nobody
        knows how many rows a pass has."""
        del step
        return epoch

    def drawn_in(self, epoch: int) -> int:
        """Return the number that random choices about rows use for the epoch, so that they differ each time a row is
        read."""
        return epoch


class OrderedSplit(Split):
    """Rows that come in an order of their own, since nobody knows all of them beforehand."""

    @abstractmethod
    def order(self, *, batch_size: int, seed: int) -> Order:
        """Return the order of a run for training."""


def order_of(split: Split, *, batch_size: int, seed: int) -> Order:
    """Return the order in which training reads a split."""
    if isinstance(split, OrderedSplit):
        return split.order(batch_size=batch_size, seed=seed)
    return EpochOrder(split, batch_size=batch_size, seed=seed)


class EpochOrder(Order):
    """Shuffled rows for training, each at most once per epoch, all devices together.

    Every batch is full: the rows left over, others in every epoch, wait for the next. A split smaller than a batch
    is one batch. Where rows differ in length, batches are made of rows of about the same length.
    """

    def __init__(self, split: Split, *, batch_size: int, seed: int) -> None:
        num_rows = len(split)
        if num_rows == 0:
            raise DataError("the train split is empty: give more data, or a smaller share to validation and test.")
        self.num_rows, self.seed = num_rows, seed
        self.batch_size = min(batch_size, num_rows)
        self.steps_per_epoch = num_rows // self.batch_size
        self._lengths = split.lengths()
        self._batches = lru_cache(maxsize=2)(self._shuffled)

    def step(self, step: int, *, rank: int = 0, world_size: int = 1) -> tuple[int, np.ndarray]:
        epoch, index = divmod(step, self.steps_per_epoch)
        return epoch, device_share(self.epoch(epoch)[index], rank=rank, world_size=world_size)

    def passes_after(self, step: int, epoch: int) -> int:
        """Return how many passes are complete: rows left over by full batches wait for the next."""
        del epoch
        return (step + 1) // self.steps_per_epoch

    def epoch(self, epoch: int) -> np.ndarray:
        """Return all batches of an epoch: one line of row numbers each."""
        return self._batches(epoch)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_batches"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._batches = lru_cache(maxsize=2)(self._shuffled)

    def _shuffled(self, epoch: int) -> np.ndarray:
        generator = np.random.default_rng([self.seed, epoch, _ORDER_STREAM])
        used = generator.permutation(self.num_rows)[: self.steps_per_epoch * self.batch_size]
        if self._lengths is None:
            return used.reshape(-1, self.batch_size)
        bucketed = self._sorted_in_buckets(used, self._lengths).reshape(-1, self.batch_size)
        return bucketed[generator.permutation(len(bucketed))]

    def _sorted_in_buckets(self, rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        bucket = np.arange(len(rows)) // (_BUCKET * self.batch_size)
        return rows[np.lexsort((lengths[rows], bucket))]


def evaluation_batches(num_rows: int, *, batch_size: int, rank: int = 0, world_size: int = 1) -> Iterator[np.ndarray]:
    """Yield this device's share of every batch of a split, in order: each row once over all devices.

    Every device gets as many shares as there are batches, so that all meet at the same step; where the last batch is
    smaller than the number of devices, some of the shares are empty.
    """
    for start in range(0, num_rows, batch_size):
        yield np.arange(start + rank, min(start + batch_size, num_rows), world_size)


def device_share(rows: np.ndarray, *, rank: int, world_size: int) -> np.ndarray:
    """Return a device's part of a batch: neighbouring rows, in the order of the batch."""
    return np.array_split(rows, world_size)[rank]
