"""Each kind takes its values and converts them."""

from __future__ import annotations

import math

import pytest

from headtohead.config.schema.value_kinds import (
    BoolKind,
    Either,
    Kind,
    ListOf,
    MappingOf,
    MismatchError,
    NullKind,
    NumberKind,
    OneOf,
    PartKind,
    TextKind,
    WholeNumber,
)


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (WholeNumber(), 3, 3),
        (WholeNumber(), 1e3, 1000),
        (NumberKind(), 1, 1.0),
        (NumberKind(), 1e-5, 1e-5),
        (BoolKind(), False, False),
        (TextKind(), "a", "a"),
        (TextKind(), 7, "7"),
        (NullKind(), None, None),
        (OneOf((1, 2)), 2, 2),
        (Either((WholeNumber(), NullKind())), None, None),
        (Either((WholeNumber(), TextKind())), "x", "x"),
        (ListOf(NumberKind()), [1, 2], [1.0, 2.0]),
        (ListOf(NumberKind(), items=(NumberKind(), WholeNumber())), (1, 2), [1.0, 2]),
        (MappingOf(NumberKind()), {"a": 1}, {"a": 1.0}),
    ],
)
def test_value_is_read_in_its_own_type(kind: Kind, value: object, read: object) -> None:
    result = kind.read(value)
    assert result == read and type(result) is type(read)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (WholeNumber(), 1.5),
        (WholeNumber(), True),
        (WholeNumber(), "3"),
        (WholeNumber(), math.nan),
        (WholeNumber(), math.inf),
        (WholeNumber(), None),
        (NumberKind(), "abc"),
        (NumberKind(), True),
        (NumberKind(), math.nan),
        (BoolKind(), 1),
        (BoolKind(), "true"),
        (TextKind(), 1.5),
        (TextKind(), True),
        (OneOf((1, 2)), True),
        (OneOf(("a",)), "b"),
        (Either((WholeNumber(), NullKind())), "x"),
        (ListOf(NumberKind()), 3),
        (ListOf(NumberKind()), ["a"]),
        (ListOf(NumberKind(), items=(NumberKind(), NumberKind())), [1]),
        (MappingOf(NumberKind()), [1]),
        (PartKind(), {"width": 3}),
        (PartKind(), "lstm"),
    ],
)
def test_other_values_are_refused(kind: Kind, value: object) -> None:
    with pytest.raises(MismatchError):
        kind.read(value)


def test_a_kind_says_its_choices() -> None:
    assert Either((OneOf(("relu", "gelu")), NullKind())).wants() == "relu or gelu or null"
