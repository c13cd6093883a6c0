"""A part of a split: what a model learns of it when it has fewer rows."""

from __future__ import annotations

import numpy as np

from headtohead.data.batch import Batch
from headtohead.data.contracts import DataError, Split
from headtohead.data.order import OrderedSplit


def learned_rows(train: Split, count: int | None, seed: int) -> Split:
    """The train split, or so many rows of it; `seed` is that of the run's order."""
    if count is None:
        return train
    if isinstance(train, OrderedSplit):
        raise DataError(
            f"trainer.train_rows={count} draws rows of the whole train split, and this data streams it: set it to null"
        )
    return FewerRows(train, count, seed)


class FewerRows(Split):
    """So many rows of a split, drawn by a seed: the rows of a smaller number are among those of a larger one."""

    def __init__(self, split: Split, count: int, seed: int) -> None:
        if count > len(split):
            raise DataError(
                f"trainer.train_rows={count} is more than the train split has, {len(split)}: give fewer, or null."
            )
        self._split = split
        self.rows = np.sort(np.random.default_rng(seed).permutation(len(split))[:count])
        """Their numbers in the whole split, as its batches tell them."""

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, rows: np.ndarray) -> Batch:
        return self._split.batch(self.rows[rows])

    def lengths(self) -> np.ndarray | None:
        lengths = self._split.lengths()
        return None if lengths is None else lengths[self.rows]
