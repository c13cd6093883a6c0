"""Define the kinds of values: an annotation read from source becomes a kind that checks a value and can say what it
expects."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from headtohead.config.errors import show
from headtohead.errors import UsageError
from headtohead.ranges import ANY, Filled, Range

_LARGEST = sys.float_info.max


class MismatchError(UsageError):
    """The value is not of the kind; the message is what the kind wants."""


class OutOfRangeError(MismatchError):
    """The value is of the kind, and too large or too small; the message is the range."""


class Kind(ABC):
    """One kind of value."""

    @abstractmethod
    def read(self, value: Any) -> Any:
        """The value in its own type (an int where a whole number was meant); raises MismatchError."""

    @abstractmethod
    def wants(self) -> str:
        """Describe the expected value in words: "a whole number"."""

    def refuse(self) -> MismatchError:
        return MismatchError(self.wants())


@dataclass(frozen=True)
class AnyKind(Kind):
    def read(self, value: Any) -> Any:
        return value

    def wants(self) -> str:
        return "anything"


@dataclass(frozen=True)
class NullKind(Kind):
    def read(self, value: Any) -> Any:
        if value is not None:
            raise self.refuse()
        return value

    def wants(self) -> str:
        return "null"


@dataclass(frozen=True)
class BoolKind(Kind):
    def read(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise self.refuse()
        return value

    def wants(self) -> str:
        return "true or false"


@dataclass(frozen=True)
class WholeNumber(Kind):
    """1e3 is a whole number too, 1.5 is not."""

    range: Range = ANY

    def read(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
            raise self.refuse()
        return int(_within(self.range, value))

    def wants(self) -> str:
        return "a whole number"


@dataclass(frozen=True)
class NumberKind(Kind):
    range: Range = ANY

    def read(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
            raise self.refuse()
        return float(_within(self.range, value))

    def wants(self) -> str:
        return "a number"


@dataclass(frozen=True)
class TextKind(Kind):
    """A bare whole number counts as text, so that `name=7` works."""

    is_filled: bool = False
    """Whether it has more in it than spaces."""

    def read(self, value: Any) -> str:
        if isinstance(value, bool) or not isinstance(value, str | int) or (self.is_filled and not str(value).strip()):
            raise self.refuse()
        return str(value)

    def wants(self) -> str:
        return "text that is not empty" if self.is_filled else "text"


@dataclass(frozen=True)
class OneOf(Kind):
    values: tuple[Any, ...]

    def read(self, value: Any) -> Any:
        for known in self.values:
            if known == value and isinstance(value, bool) == isinstance(known, bool):
                return known
        raise self.refuse()

    def wants(self) -> str:
        return " or ".join(show(value) for value in self.values)


@dataclass(frozen=True)
class Either(Kind):
    kinds: tuple[Kind, ...]

    def read(self, value: Any) -> Any:
        outside: OutOfRangeError | None = None
        for kind in self.kinds:
            try:
                return kind.read(value)
            except OutOfRangeError as error:
                outside = error
            except MismatchError:
                continue
        if outside is None:
            raise self.refuse()
        others = [kind.wants() for kind in self.kinds if isinstance(kind, OneOf)]
        raise OutOfRangeError(" or ".join([*others, str(outside)]))

    def wants(self) -> str:
        return " or ".join(dict.fromkeys(kind.wants() for kind in self.kinds))


@dataclass(frozen=True)
class ListOf(Kind):
    """A list; `items` holds one kind for each place where the length is fixed."""

    item: Kind
    items: tuple[Kind, ...] | None = None
    is_filled: bool = False
    """Whether it has at least one entry."""

    def read(self, value: Any) -> list[Any]:
        if not isinstance(value, list | tuple) or (self.is_filled and not value):
            raise self.refuse()
        kinds = self.items or (self.item,) * len(value)
        if len(kinds) != len(value):
            raise self.refuse()
        return [kind.read(entry) for kind, entry in zip(kinds, value, strict=True)]

    def wants(self) -> str:
        if self.items:
            return f"a list of {len(self.items)}: [{', '.join(kind.wants() for kind in self.items)}]"
        filled = " with at least one entry" if self.is_filled else ""
        return f"a list{filled}, each of it {self.item.wants()}"


@dataclass(frozen=True)
class MappingOf(Kind):
    item: Kind

    def read(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.refuse()
        return {key: self.item.read(entry) for key, entry in value.items()}

    def wants(self) -> str:
        return f"a mapping, each value {self.item.wants()}"


def by_name(entries: Iterable[tuple[str, object]]) -> dict[str, object]:
    """Return entries by their names, as a mapping may write them in several ways, 1 and "1"; of two of one name the
    first would be lost."""
    named: dict[str, object] = {}
    for name, entry in entries:
        if name in named:
            raise MismatchError(f"a mapping in which {name} stands once")
        named[name] = entry
    return named


@dataclass(frozen=True)
class PartKind(Kind):
    """A class or function chosen by a group: a mapping with `_target_`, checked as a node of its own."""

    def read(self, value: Any) -> Any:
        if not (isinstance(value, dict) and "_target_" in value):
            raise self.refuse()
        return value

    def wants(self) -> str:
        return "a part with a _target_, chosen as group=choice"


@dataclass(frozen=True)
class FieldsOf(Kind):
    """A mapping that has each of these fields, and no other."""

    fields: Mapping[str, Kind]

    def read(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or value.keys() != self.fields.keys():
            raise self.refuse()
        return {name: kind.read(value[name]) for name, kind in self.fields.items()}

    def wants(self) -> str:
        return f"a mapping of {', '.join(f'{name}: {kind.wants()}' for name, kind in self.fields.items())}"


@dataclass(frozen=True)
class RecordKind(Kind):
    """A small dataclass written as a mapping; its keys are checked as a node of its own."""

    target: str

    def read(self, value: Any) -> Any:
        if not isinstance(value, dict):
            raise self.refuse()
        return value

    def wants(self) -> str:
        return "a mapping of its fields"


def _within(range_: Range, value: float) -> float:
    if not range_.holds(value):
        raise OutOfRangeError(range_.wants())
    return value


def narrowed(kind: Kind, to: Range | Filled) -> Kind:
    """Return the kind with a range for each of its numbers, or without the empty list."""
    if isinstance(kind, Either):
        return Either(tuple(narrowed(each, to) for each in kind.kinds))
    if isinstance(to, Filled):
        return replace(kind, is_filled=True) if isinstance(kind, ListOf) else kind
    if isinstance(kind, ListOf):
        items = tuple(narrowed(each, to) for each in kind.items) if kind.items else None
        return replace(kind, item=narrowed(kind.item, to), items=items)
    return replace(kind, range=to) if isinstance(kind, WholeNumber | NumberKind) else kind
