"""The published splits are assigned here to training, validation and test."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headtohead.data.data_source import SPLIT_NAMES, DataError, SplitName
from headtohead.data.sources.hub.dataset_reference import DatasetReference
from headtohead.data.sources.hub.split_files import Splits
from headtohead.data.sources.local_files import SPLIT_OF_NAME, TO_BE_APART, HeldOutShares

SHARE = "share"
"""A split of its own is drawn from the train rows by the seed, whatever is published."""
UNLABELLED = -1
"""The value that published sets write where a label is withheld."""


@dataclass(frozen=True)
class PublishedSplits(HeldOutShares):
    """The published split that is read for each of ours: its name, `share` for a share of the train rows, or None for
    the one of a usual name."""

    train_split: str | None = None
    validation_split: str | None = None
    test_split: str | None = None

    def by_split(self) -> dict[SplitName, str | None]:
        """Return the name of each."""
        return {"train": self.train_split, "validation": self.validation_split, "test": self.test_split}


def chosen_splits(
    published: DatasetReference, requested: Mapping[SplitName, str | None], splits: Splits
) -> dict[SplitName, str | None]:
    """Return the published split of each of ours, None where it is a share of the train rows. A split that training
    reads, or that is given to another, is not chosen by its name alone: where a set only has a test split, all three
    are parts of it, and where test_split=validation, validation is a share."""
    names = list(splits)
    train = _chosen(published, "train", requested["train"], names)
    left = [name for name in names if name != train and name not in requested.values()]
    others = (ours for ours in SPLIT_NAMES if ours != "train")
    chosen: dict[SplitName, str | None] = {"train": train}
    chosen |= {ours: _chosen(published, ours, requested[ours], names, left) for ours in others}
    check_apart(published, chosen, splits, instead=SHARE)
    return chosen


def check_apart(
    published: DatasetReference, chosen: Mapping[SplitName, str | None], splits: Splits, *, instead: str | None = None
) -> None:
    """Check that no file is read for two splits, under one name or two; `instead` of a published split, this may be
    given."""
    for ours, other in TO_BE_APART:
        mine, theirs = chosen.get(ours), chosen.get(other)
        if mine is None or theirs is None:
            continue
        both = [file.path for file in splits.get(mine, ()) if file in splits.get(theirs, ())]
        if both:
            unused = [name for name in splits if name not in chosen.values()]
            ways = [*([instead] if instead else []), *unused]
            problem = (
                f"is what data.{other}_split={theirs} reads too" if mine == theirs else f"and {theirs} share {both[0]}"
            )
            raise DataError(
                f"{published}: data.{ours}_split={mine} {problem}, and what is measured must not be what {other} "
                f"reads: "
                f"give data.{ours}_split={' or '.join(ways) or 'another, of a set that has one'}."
            )


def _chosen(
    published: DatasetReference,
    ours: SplitName,
    requested: str | None,
    names: Sequence[str],
    left: Sequence[str] | None = None,
) -> str | None:
    """Guess a split among those that are `left`, all of them where that is None."""
    if requested in names:
        return requested
    known = ", ".join(names)
    if requested == SHARE and ours != "train":
        return None
    if requested is not None:
        raise DataError(f"{published} has no split {requested!r}, it has {known}: correct data.{ours}_split.")
    left = names if left is None else left
    called = [name for name in left if SPLIT_OF_NAME.get(name.lower()) == ours]
    called = called or [name for name in left if SPLIT_OF_NAME.get(re.split(r"[-_.]", name.lower())[0]) == ours]
    if len(called) == 1:
        return called[0]
    if called:
        raise DataError(f"{published} has several splits for {ours} ({', '.join(called)}): give data.{ours}_split.")
    if ours != "train":
        return None
    if len(names) == 1:
        return names[0]
    raise DataError(f"{published} has the splits {known}, and none is called train: give data.train_split.")


def is_unlabelled(label: object) -> bool:
    return label is None or label in (UNLABELLED, str(UNLABELLED))


def hidden(published: DatasetReference, ours: SplitName, theirs: str, others: Sequence[str]) -> DataError:
    """Return the error of a split whose labels are all withheld, like those of a contest's test rows."""
    way = "give data.validation_split=share"
    if ours == "test":
        way = (
            f"give data.test_split={others[0]} {way.removeprefix('give ')}" if others else "give data.test_split=share"
        )
    return DataError(f"{published}: the labels of its {theirs} split are not published (all are {UNLABELLED}): {way}.")
