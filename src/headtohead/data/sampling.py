"""A few rows in place of a whole split: what a validation reads that must be quick, drawn from all of the split."""

from __future__ import annotations

import numpy as np

from headtohead.data.batch import Batch
from headtohead.data.contracts import Split


class SampledRows(Split):
    """About so many rows, in their order. Rows that are measured together are all there or none: as many wholes as fit,
    one at least. Drawn from the whole split, since published rows often stand in the order of their labels."""

    def __init__(self, split: Split, count: int, seed: int) -> None:
        self._split, self._rows = split, _drawn(split, count, seed)

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, rows: np.ndarray) -> Batch:
        return self._split.batch(self._rows[rows])

    def lengths(self) -> np.ndarray | None:
        lengths = self._split.lengths()
        return None if lengths is None else lengths[self._rows]

    def wholes(self) -> np.ndarray | None:
        wholes = self._split.wholes()
        return None if wholes is None else wholes[self._rows]


def _drawn(split: Split, count: int, seed: int) -> np.ndarray:
    """Wholes in an order of the seed's, until the next one has no room."""
    wholes = split.wholes()
    number_of = np.arange(len(split)) if wholes is None else np.unique(wholes, return_inverse=True)[1]
    sizes = np.bincount(number_of)
    order = np.random.default_rng(seed).permutation(len(sizes))
    fitting = max(1, int(np.searchsorted(np.cumsum(sizes[order]), count, side="right")))
    return np.flatnonzero(np.isin(number_of, order[:fitting]))
