"""Some rows of a split: the few that a model is to learn from, and a sample for a validation that must be quick."""

from __future__ import annotations

import numpy as np

from headtohead.data.batch import Batch
from headtohead.data.contracts import DataError, Split
from headtohead.data.order import OrderedSplit


class SomeRows(Split):
    """These rows of a split, in this order."""

    def __init__(self, split: Split, rows: np.ndarray) -> None:
        self._split = split
        self.rows = rows
        """Their numbers in the whole split, as its batches tell them."""

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, rows: np.ndarray) -> Batch:
        return self._split.batch(self.rows[rows])

    def lengths(self) -> np.ndarray | None:
        return self._of_ours(self._split.lengths())

    def wholes(self) -> np.ndarray | None:
        return self._of_ours(self._split.wholes())

    def _of_ours(self, facts: np.ndarray | None) -> np.ndarray | None:
        return None if facts is None else facts[self.rows]


def numbers_of(split: Split) -> np.ndarray:
    """Those of its rows in the whole split."""
    return split.rows if isinstance(split, SomeRows) else np.arange(len(split))


def learned_rows(train: Split, count: int | None, seed: int) -> Split:
    """The train split, or so many rows of it; `seed` is that of the run's order."""
    if count is None:
        return train
    if isinstance(train, OrderedSplit):
        raise DataError(
            f"trainer.train_rows={count} draws rows of the whole train split, and this data streams it: set it to null"
        )
    return fewer_rows(train, count, seed)


def fewer_rows(train: Split, count: int, seed: int) -> SomeRows:
    """So many rows, drawn by a seed: those of a smaller number are among those of a larger one."""
    if count > len(train):
        raise DataError(
            f"trainer.train_rows={count} is more than the train split has, {len(train)}: give fewer, or null."
        )
    return SomeRows(train, np.sort(np.random.default_rng(seed).permutation(len(train))[:count]))


def sampled_rows(split: Split, count: int, seed: int) -> SomeRows:
    """About so many rows. Rows that are measured together are all there or none: as many wholes as fit, one at least.
    Drawn from the whole split, since published rows often stand in the order of their labels."""
    wholes = split.wholes()
    number_of = np.arange(len(split)) if wholes is None else np.unique(wholes, return_inverse=True)[1]
    sizes = np.bincount(number_of)
    order = np.random.default_rng(seed).permutation(len(sizes))
    fitting = max(1, int(np.searchsorted(np.cumsum(sizes[order]), count, side="right")))
    return SomeRows(split, np.flatnonzero(np.isin(number_of, order[:fitting])))
