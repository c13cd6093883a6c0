"""Names of classes and their numbers: given, or learned from the train split."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from headtohead.data.contracts import DataError

Label = int | str


@dataclass(frozen=True)
class Classes:
    """A label is the name of a class, or its number, which is the place of the name."""

    names: tuple[str, ...]
    given: bool = True
    """Whether the user or the source named them; else they are those of the train split."""

    @classmethod
    def found(cls, labels: Iterable[Label]) -> Classes:
        """Whole numbers by size, all else by the alphabet."""
        return cls(tuple(sorted({str(label) for label in labels}, key=_by_number_then_name)), given=False)

    def number_of(self, label: Label, what: str, where: Callable[[], str]) -> int:
        """`what` is label or tag; `where` says the row."""
        if isinstance(label, str) and (number := self._numbers.get(label)) is not None:
            return number
        if self.given and is_whole(label) and 0 <= int(label) < len(self.names):
            return int(label)
        raise self._refusal(label, what, where())

    def _refusal(self, label: Label, what: str, where: str) -> DataError:
        if self.given and is_whole(label):
            return DataError(
                f"{where} has {what} {label}, and its {len(self.names)} classes are numbered from 0 to "
                f"{len(self.names) - 1}: correct the {what}, or name more classes."
            )
        known = ", ".join(self.names[:20]) + (" ..." if len(self.names) > 20 else "")
        if self.given:
            return DataError(f"{where} has {what} {label!r}, which is none of data.class_names ({known}).")
        is_grade = what == "label" and _is_broken(label)
        graded = "; grades are no classes: give data.score_column and task=similarity" if is_grade else ""
        return DataError(
            f"{where} has {what} {label!r}, which the train split does not have ({known}): correct the {what}, or "
            f"name all classes in data.class_names{graded}."
        )

    @cached_property
    def _numbers(self) -> Mapping[str, int]:
        return {name: number for number, name in enumerate(self.names)}


def class_shares(labels: np.ndarray, num_classes: int) -> tuple[float, ...]:
    """How often each class occurs."""
    counts = np.bincount(labels, minlength=num_classes)
    return tuple((counts / max(int(counts.sum()), 1)).tolist())


def _is_broken(label: Label) -> bool:
    """Whether it is a number with digits behind the point that say something, as grades are."""
    try:
        number = float(label)
    except (ValueError, OverflowError):
        return False
    return math.isfinite(number) and not number.is_integer()


def check_class_names(names: Sequence[str] | None) -> tuple[str, ...] | None:
    """As the user gives them: at least two, no two alike; None means those of the train split."""
    if names is None:
        return None
    if len(names) < 2 or len(set(names)) < len(names):
        raise DataError(f"data.class_names={list(names)}: give at least two names, no two of them alike.")
    return tuple(names)


def is_whole(label: Label) -> bool:
    """A whole number, or a text that is one."""
    return isinstance(label, int) or (label.isascii() and label.removeprefix("-").isdecimal())


def _by_number_then_name(name: str) -> tuple[int, int, str]:
    return (0, int(name), name) if is_whole(name) else (1, 0, name)
