"""Samples are dealt out to train, validation and test; some rows of a split are chosen, to learn from or to look at."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np

from headtohead.data.batches.batch import Batch
from headtohead.data.batches.row_order import OrderedSplit
from headtohead.data.data_source import SPLIT_NAMES, DataError, Split, SplitName
from headtohead.field_group import FieldGroup
from headtohead.ranges import Rows

Sample = TypeVar("Sample", bound=Hashable)


@dataclass(frozen=True)
class SplitSizes(FieldGroup):
    """The number of samples that are made for each split."""

    num_train: Rows = 20_000
    """Samples of the train split."""
    num_validation: Rows = 1_000
    """Samples of the validation split."""
    num_test: Rows = 1_000
    """Samples of the test split."""

    def by_name(self) -> dict[SplitName, int]:
        """Return the size of each split; none may be empty."""
        sizes = dict(zip(SPLIT_NAMES, (self.num_train, self.num_validation, self.num_test), strict=True))
        for name, size in sizes.items():
            if size < 1:
                raise DataError(f"data.num_{name}={size} leaves the {name} split empty: give at least 1.")
        return sizes


def only_test(sizes: Mapping[SplitName, int]) -> dict[SplitName, int]:
    """Return the sizes of a source of which only the test split is needed: no split may be empty."""
    return {name: size if name == "test" else 1 for name, size in sizes.items()}


def split_samples(
    samples: Iterable[Sample], sizes: dict[SplitName, int], *, source: str
) -> dict[SplitName, list[Sample]]:
    """Return the first distinct samples: the test split first, so that a larger train split leaves the others as they
    are."""
    total = sum(sizes.values())
    distinct: dict[Sample, None] = {}
    for sample in samples:
        distinct[sample] = None
        if len(distinct) == total:
            break
    if len(distinct) < total:
        raise DataError(
            f"data={source} has only {len(distinct)} different samples under these settings, and {total} are "
            f"requested: lower data.num_train={sizes['train']}, or allow longer samples."
        )
    rest = iter(distinct)
    assigned = {name: [next(rest) for _ in range(sizes[name])] for name in reversed(SPLIT_NAMES)}
    return {name: assigned[name] for name in SPLIT_NAMES}


Keys = Sequence[Hashable]
"""The keys of one sample, each of which groups it with the samples that have the same key at that index; None groups it
with none."""


def group_ids_of(keys: Sequence[Keys]) -> np.ndarray:
    """Return the group of each sample, numbered from 0 in order. Samples that share a key are in one group, and so are
    those connected through others."""
    parent = list(range(len(keys)))
    first: dict[tuple[int, Hashable], int] = {}
    for sample, own in enumerate(keys):
        for index, key in enumerate(own):
            if key is not None:
                ends = _root(parent, first.setdefault((index, key), sample)), _root(parent, sample)
                parent[max(ends)] = min(ends)
    roots = np.array([_root(parent, sample) for sample in range(len(keys))], dtype=np.int64)
    return np.unique(roots, return_inverse=True)[1]


def with_all_classes_left(
    order: np.ndarray, starts: np.ndarray, classes: Sequence[Sequence[Hashable]], drawn_sizes: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Return an order of samples, and where it may be divided, such that what is left after splits of these sizes are
    drawn from its front has every class; groups of which the last sample of a class is one move to the end, all others
    stay in order. Where there are too few samples, some class is still missing."""
    size, at_the_end = len(order), set[int]()
    while classes:
        end = 0
        for drawn in drawn_sizes:
            end = int(starts[np.searchsorted(starts, end + drawn)])
        left = {name for row in order[end:].tolist() for name in classes[row]}
        last_of = {name: row for row in order[:end].tolist() for name in classes[row] if name not in left}
        cuts = starts[starts <= size]
        groups = [order[start:stop] for start, stop in pairwise(cuts.tolist())]
        new = set(last_of.values()) - at_the_end
        if not new:
            break
        at_the_end |= new
        stays = [group for group in groups if at_the_end.isdisjoint(group.tolist())]
        moves = [group for group in groups if not at_the_end.isdisjoint(group.tolist())]
        order = np.concatenate([*stays, *moves])
        lengths = [len(group) for group in (*stays, *moves)]
        starts = np.append(np.cumsum([0, *lengths]), 2 * size)
    return order, starts


def _root(parent: list[int], sample: int) -> int:
    """Return the first sample of a group; paths to it are shortened on the way."""
    while parent[sample] != sample:
        parent[sample] = parent[parent[sample]]
        sample = parent[sample]
    return sample


class RowSubset(Split):
    """These rows of a split, in this order."""

    def __init__(self, split: Split, rows: np.ndarray) -> None:
        self._split = split
        self.rows = rows
        """Their numbers in the whole split, which its batches contain."""

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, rows: np.ndarray) -> Batch:
        return self._split.batch(self.rows[rows])

    def lengths(self) -> np.ndarray | None:
        return self._of_ours(self._split.lengths())

    def group_ids(self) -> np.ndarray | None:
        return self._of_ours(self._split.group_ids())

    def _of_ours(self, facts: np.ndarray | None) -> np.ndarray | None:
        return None if facts is None else facts[self.rows]


def numbers_of(split: Split) -> np.ndarray:
    """Return the numbers of a split's rows in the whole split."""
    return split.rows if isinstance(split, RowSubset) else np.arange(len(split))


def train_subset(train: Split, count: int | None, seed: int) -> Split:
    """Return the train split, or so many rows of it; `seed` is that of the run's order."""
    if count is None:
        return train
    if isinstance(train, OrderedSplit):
        raise DataError(
            f"trainer.train_rows={count} draws rows of the whole train split, and this data streams it: set it to null"
        )
    return fewer_rows(train, count, seed)


def fewer_rows(train: Split, count: int, seed: int) -> RowSubset:
    """Return so many rows, drawn by a seed: those of a smaller number are among those of a larger one."""
    if count > len(train):
        raise DataError(
            f"trainer.train_rows={count} is more than the train split has, {len(train)}: give fewer, or null."
        )
    return RowSubset(train, np.sort(np.random.default_rng(seed).permutation(len(train))[:count]))


def sampled_rows(split: Split, count: int, seed: int) -> RowSubset:
    """Return about so many rows. Rows that are measured together are all there or none: as many groups as fit, at least
    one. Rows come from the whole split, since published rows are often sorted by their labels."""
    group_ids = split.group_ids()
    number_of = np.arange(len(split)) if group_ids is None else np.unique(group_ids, return_inverse=True)[1]
    sizes = np.bincount(number_of)
    order = np.random.default_rng(seed).permutation(len(sizes))
    fitting = max(1, int(np.searchsorted(np.cumsum(sizes[order]), count, side="right")))
    return RowSubset(split, np.flatnonzero(np.isin(number_of, order[:fitting])))
