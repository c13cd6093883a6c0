"""Samples dealt out to train, validation and test: no sample twice, none in two splits."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from headtohead.data.contracts import SPLIT_NAMES, DataError, SplitName

Sample = TypeVar("Sample", bound=Hashable)


def check_sizes(num_train: int, num_validation: int, num_test: int) -> dict[SplitName, int]:
    """How many samples each split gets; none may be empty."""
    sizes = dict(zip(SPLIT_NAMES, (num_train, num_validation, num_test), strict=True))
    for name, size in sizes.items():
        if size < 1:
            raise DataError(f"data.num_{name}={size} leaves the {name} split empty: give at least 1.")
    return sizes


def only_test(sizes: Mapping[SplitName, int]) -> dict[SplitName, int]:
    """Sizes for a source of which nothing but the test split is wanted: no split may be empty."""
    return {name: size if name == "test" else 1 for name, size in sizes.items()}


def deal(samples: Iterable[Sample], sizes: dict[SplitName, int], *, source: str) -> dict[SplitName, list[Sample]]:
    """The first distinct samples: the test split first, so that a larger train split leaves the others as they are."""
    wanted = sum(sizes.values())
    distinct: dict[Sample, None] = {}
    for sample in samples:
        distinct[sample] = None
        if len(distinct) == wanted:
            break
    if len(distinct) < wanted:
        raise DataError(
            f"data={source} has only {len(distinct)} different samples under these settings, and {wanted} are asked "
            f"for: lower data.num_train={sizes['train']}, or allow longer samples."
        )
    rest = iter(distinct)
    dealt = {name: [next(rest) for _ in range(sizes[name])] for name in reversed(SPLIT_NAMES)}
    return {name: dealt[name] for name in SPLIT_NAMES}
