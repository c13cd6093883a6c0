"""Which published split is for training, which for validation, which for the test."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from headtohead.data.contracts import SPLIT_NAMES, DataError, SplitName
from headtohead.data.files import SPLIT_OF_NAME, TO_BE_APART
from headtohead.data.hub.published import Published
from headtohead.data.hub.splitting import Splits

SHARE = "share"
"""A split of its own is drawn from the train rows by the seed, whatever is published."""
UNLABELLED = -1
"""What published sets write where a label is not given away."""


def chosen_splits(
    published: Published, given: Mapping[SplitName, str | None], splits: Splits
) -> dict[SplitName, str | None]:
    """The published split of each of ours, None where it is a share of the train rows. What training reads, or what is
    given to another, is no split by its name alone: of a set that only has a test, all three are parts of it, and where
    test_split=validation, validation is a share."""
    names = list(splits)
    train = _chosen(published, "train", given["train"], names)
    left = [name for name in names if name != train and name not in given.values()]
    others = (ours for ours in SPLIT_NAMES if ours != "train")
    chosen: dict[SplitName, str | None] = {"train": train}
    chosen |= {ours: _chosen(published, ours, given[ours], names, left) for ours in others}
    check_apart(published, chosen, splits, instead=SHARE)
    return chosen


def check_apart(
    published: Published, chosen: Mapping[SplitName, str | None], splits: Splits, *, instead: str | None = None
) -> None:
    """No file is read for two splits, under one name or two; `instead` of a published split, this may be given."""
    for ours, other in TO_BE_APART:
        mine, theirs = chosen.get(ours), chosen.get(other)
        if mine is None or theirs is None:
            continue
        both = [file.path for file in splits.get(mine, ()) if file in splits.get(theirs, ())]
        if both:
            unused = [name for name in splits if name not in chosen.values()]
            ways = [*([instead] if instead else []), *unused]
            told = (
                f"is what data.{other}_split={theirs} reads too" if mine == theirs else f"and {theirs} share {both[0]}"
            )
            raise DataError(
                f"{published}: data.{ours}_split={mine} {told}, and what is measured must not be what {other} reads: "
                f"give data.{ours}_split={' or '.join(ways) or 'another, of a set that has one'}."
            )


def _chosen(
    published: Published, ours: SplitName, given: str | None, names: Sequence[str], left: Sequence[str] | None = None
) -> str | None:
    """Guessed among those that are `left`, all of them where that is None."""
    if given in names:
        return given
    known = ", ".join(names)
    if given == SHARE and ours != "train":
        return None
    if given is not None:
        raise DataError(f"{published} has no split {given!r}, it has {known}: correct data.{ours}_split.")
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


def hidden(published: Published, ours: SplitName, theirs: str, others: Sequence[str]) -> DataError:
    """All labels of a split are kept back, as those of a contest's test rows are."""
    way = "give data.validation_split=share"
    if ours == "test":
        way = (
            f"give data.test_split={others[0]} {way.removeprefix('give ')}" if others else "give data.test_split=share"
        )
    return DataError(f"{published}: the labels of its {theirs} split are not published (all are {UNLABELLED}): {way}.")
