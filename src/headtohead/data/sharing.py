"""Samples that belong together: a split that is drawn has all of them or none, so that nothing is measured by what was
nearly learned."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

Keys = Sequence[Hashable]
"""Of one sample: with each it belongs to the samples that have the same key in that place; None to no others."""


def groups_of(keys: Sequence[Keys]) -> np.ndarray:
    """The number of the group of each sample, counted from 0 as they come. Those that share a key are in one group, and
    with them those that share another with one of them."""
    parent = list(range(len(keys)))
    first: dict[tuple[int, Hashable], int] = {}
    for sample, own in enumerate(keys):
        for place, key in enumerate(own):
            if key is not None:
                ends = _root(parent, first.setdefault((place, key), sample)), _root(parent, sample)
                parent[max(ends)] = min(ends)
    roots = np.array([_root(parent, sample) for sample in range(len(keys))], dtype=np.int64)
    return np.unique(roots, return_inverse=True)[1]


def _root(parent: list[int], sample: int) -> int:
    """The first sample of its group; ways there are shortened on the way."""
    while parent[sample] != sample:
        parent[sample] = parent[parent[sample]]
        sample = parent[sample]
    return sample
