"""The order of a stream: a pure function of the seed and the step, found without reading what no batch asks for.

A corpus is read at several places at once, its lanes, each with units of its own. A lane goes through its units in an
order that the seed and the number of the pass give, a window of some units at a time, and draws the rows of a window in
random order: a shuffling buffer that is filled, emptied, and filled again, so that any step can be reached from the
sizes of the units before it.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from headtohead.data.contracts import DataError
from headtohead.data.order import Order, OrderedSplit, device_share, order_of

_ROW_BITS, _UNIT_BITS, _PASS_BITS = 32, 22, 9
"""Of a row's number, from the lowest: its place in its unit, the unit, and the pass in which it is read."""
_UNITS_STREAM, _ROWS_STREAM = 2, 3
"""Keep the two shufflings apart from other uses of the same seed."""


def numbers_of(unit: int, num_rows: int, in_pass: int = 0) -> np.ndarray:
    """The rows of a unit as numbers, the same under every seed, and others in each pass: what is drawn for a row by its
    number is then drawn anew each time that it is read, whoever reads it and however far the other lanes are."""
    assert unit < 1 << _UNIT_BITS and num_rows <= 1 << _ROW_BITS, "a row's number has no room for more"
    told = in_pass % (1 << _PASS_BITS) << _UNIT_BITS
    return ((told + unit) << _ROW_BITS) + np.arange(num_rows, dtype=np.int64)


def places_of(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The unit of each row, and its place there."""
    return numbers >> _ROW_BITS & ((1 << _UNIT_BITS) - 1), numbers & ((1 << _ROW_BITS) - 1)


class Lane:
    """One of the places at which a corpus is read: an endless sequence of the rows of its units."""

    def __init__(
        self,
        units: Sequence[int],
        num_rows: Callable[[int], int],
        want: Callable[[Iterable[int]], None],
        *,
        window: int,
        seed: Sequence[int],
    ) -> None:
        """`window` in units."""
        self._units, self._num_rows, self._want = np.asarray(units), num_rows, want
        self._window, self._seed = window, list(seed)
        self._per_pass = -(-len(units) // window)
        self._ends: list[int] = []
        """Of the windows so far, as places in the sequence."""
        self._rows = lru_cache(maxsize=2)(self._shuffled)
        self._pass = lru_cache(maxsize=2)(self._ordered)

    def take(self, start: int, stop: int) -> tuple[list[np.ndarray], int]:
        """Rows from one place of the sequence to another, and the pass that the first of them belongs to."""
        found, number = [], self._window_of(start)
        first_pass = number // self._per_pass
        while start < stop:
            number = self._window_of(start)
            begin, end = (self._ends[number - 1] if number else 0), self._ends[number]
            found.append(self._rows(number)[start - begin : stop - begin])
            start = min(stop, end)
        return found, first_pass

    def _window_of(self, place: int) -> int:
        while not self._ends or self._ends[-1] <= place:
            number = len(self._ends)
            if number == self._per_pass and not self._ends[-1]:
                raise DataError("a part of the stream holds no row: give more text, or fewer data.lanes.")
            size = sum(self._num_rows(unit) for unit in self._units_in(number))
            self._ends.append((self._ends[-1] if number else 0) + size)
        return bisect_right(self._ends, place)

    def _shuffled(self, number: int) -> np.ndarray:
        self._want(self._units_in(number + 1))
        units, in_pass = self._units_in(number), number // self._per_pass
        rows = np.concatenate([numbers_of(unit, self._num_rows(unit), in_pass) for unit in units])
        return np.random.default_rng([*self._seed, number, _ROWS_STREAM]).permutation(rows)

    def _units_in(self, number: int) -> list[int]:
        in_pass, place = divmod(number, self._per_pass)
        result: list[int] = self._pass(in_pass)[place * self._window : (place + 1) * self._window].tolist()
        return result

    def _ordered(self, number: int) -> np.ndarray:
        return np.random.default_rng([*self._seed, number, _UNITS_STREAM]).permutation(self._units)


class InLanes(OrderedSplit):
    """A split that is read at several places at once."""

    @abstractmethod
    def lanes(self, seed: int) -> list[Lane]:
        """One or more."""

    def order(self, *, batch_size: int, seed: int) -> Order:
        return StreamOrder(self, batch_size=batch_size, seed=seed)


class StreamOrder(Order):
    """Batches that take the same number of rows from every lane, as far as that divides; devices share the lanes out,
    so that each reads its own alone where their number divides that of the lanes."""

    def __init__(self, split: InLanes, *, batch_size: int, seed: int) -> None:
        self._split, self.batch_size, self._seed = split, batch_size, seed
        self._lanes = split.lanes(seed)

    def __reduce__(self) -> tuple[Callable[..., Order], tuple[Any, ...]]:
        """Another process finds its lanes anew."""
        return partial(order_of, batch_size=self.batch_size, seed=self._seed), (self._split,)

    def drawn_in(self, epoch: int) -> int:
        """The numbers of rows tell the pass; the epoch would differ between devices, which read other lanes."""
        del epoch
        return 0

    def step(self, step: int, *, rank: int = 0, world_size: int = 1) -> tuple[int, np.ndarray]:
        """The epoch is the number of whole passes of the lane that is least far, of those that the device reads."""
        draws = np.arange(step * self.batch_size, (step + 1) * self.batch_size)
        by_lane = draws[np.argsort(draws % len(self._lanes), kind="stable")]
        own = device_share(by_lane, rank=rank, world_size=world_size)
        rows: list[np.ndarray] = []
        passes = []
        for lane in np.unique(own % len(self._lanes)):
            places = own[own % len(self._lanes) == lane] // len(self._lanes)
            found, first_pass = self._lanes[lane].take(int(places[0]), int(places[-1]) + 1)
            rows += found
            passes.append(first_pass)
        return min(passes, default=0), np.concatenate([np.zeros(0, dtype=np.int64), *rows])
