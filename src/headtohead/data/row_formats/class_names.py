"""Names of classes and their numbers are given, or learned from the train split."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headtohead.data.data_source import DataError
from headtohead.data.sources.missing_values import may_mean_missing

Label = int | str
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Classes:
    """A label is the name of a class, or its number, which is the index of the name. As text, a number is an index only
    where no name is a number itself."""

    names: tuple[str, ...]
    are_given: bool = True
    """Whether the user or the source named them; else they are those of the train split."""

    @classmethod
    def from_labels(cls, labels: Iterable[Label]) -> Classes:
        """Collect the classes of the labels: integers in numerical order, everything else alphabetically."""
        names = tuple(sorted({str(label) for label in labels}, key=_by_number_then_name))
        for first, second in _lookalikes(names):
            _log.warning("the classes %r and %r differ in case or blanks alone: are they two?", first, second)
        if missing := ", ".join(filter(may_mean_missing, names)):
            _log.warning(
                "among the classes are words for a missing label: %s; where they mean that, leave it out", missing
            )
        return cls(names, are_given=False)

    def number_of(self, label: Label, what: str, where: Callable[[], str]) -> int:
        """Return the number of a label; `what` is label or tag, and `where` locates the row."""
        name = label if isinstance(label, str) or self.are_given else str(label)  # as the names were collected
        if isinstance(name, str) and (number := self._numbers.get(name)) is not None:
            return number
        if self._may_be_number(label) and 0 <= int(label) < len(self.names):
            return int(label)
        raise self._refusal(label, what, where())

    def _refusal(self, label: Label, what: str, where: str) -> DataError:
        if self._may_be_number(label):
            return DataError(
                f"{where} has {what} {label}, and its {len(self.names)} classes are numbered from 0 to "
                f"{len(self.names) - 1}: correct the {what}, or name more classes."
            )
        known = ", ".join(self.names[:20]) + (" ..." if len(self.names) > 20 else "")
        if self.are_given:
            return DataError(f"{where} has {what} {label!r}, which is not in data.class_names ({known}).")
        is_grade = what == "label" and _is_broken(label)
        graded = "; grades are not classes: give data.score_column and task=similarity" if is_grade else ""
        return DataError(
            f"{where} has {what} {label!r}, which the train split does not have ({known}): correct the {what}, or "
            f"name all classes in data.class_names{graded}."
        )

    def _may_be_number(self, label: Label) -> bool:
        """Return whether a label that names no class may be the number of one: beside names such as 1, 2 and 3, the
        text 0 would be another row's 1."""
        return self.are_given and is_whole(label) and not (isinstance(label, str) and self._have_numbers_as_names)

    @cached_property
    def _have_numbers_as_names(self) -> bool:
        return any(map(is_whole, self.names))

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {name: number for number, name in enumerate(self.names)}


def _lookalikes(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each name with the first that equals it but for case and blanks."""
    first: dict[str, str] = {}
    for name in names:
        plain = " ".join(name.casefold().split())
        if plain in first:
            yield first[plain], name
        else:
            first[plain] = name


def class_shares(labels: np.ndarray, num_classes: int) -> tuple[float, ...]:
    """Return the share of each class."""
    counts = np.bincount(labels, minlength=num_classes)
    return tuple((counts / max(int(counts.sum()), 1)).tolist())


def _is_broken(label: Label) -> bool:
    """Return whether the label is a number with non-zero decimals, as grades are."""
    try:
        number = float(label)
    except (ValueError, OverflowError):
        return False
    return math.isfinite(number) and not number.is_integer()


def check_class_names(names: Sequence[str] | None) -> tuple[str, ...] | None:
    """Check the user's class names: at least two, all different; None means those of the train split."""
    if names is None:
        return None
    if len(names) < 2 or len(set(names)) < len(names):
        raise DataError(f"data.class_names={list(names)}: give at least two names, no two of them alike.")
    return tuple(names)


def is_whole(label: Label) -> bool:
    """Return whether a label is an integer, or a text that is one."""
    return isinstance(label, int) or (label.isascii() and label.removeprefix("-").isdecimal())


def _by_number_then_name(name: str) -> tuple[int, int, str]:
    return (0, int(name), name) if is_whole(name) else (1, 0, name)
