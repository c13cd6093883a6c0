"""What values each kind takes, and as what."""

from __future__ import annotations

import math

import pytest

from headtohead.building.kinds import (
    Either,
    Flag,
    Kind,
    ListOf,
    MappingOf,
    MismatchError,
    Null,
    Number,
    OneOf,
    Part,
    Text,
    Whole,
)


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (Whole(), 3, 3),
        (Whole(), 1e3, 1000),
        (Number(), 1, 1.0),
        (Number(), 1e-5, 1e-5),
        (Flag(), False, False),
        (Text(), "a", "a"),
        (Text(), 7, "7"),
        (Null(), None, None),
        (OneOf((1, 2)), 2, 2),
        (Either((Whole(), Null())), None, None),
        (Either((Whole(), Text())), "x", "x"),
        (ListOf(Number()), [1, 2], [1.0, 2.0]),
        (ListOf(Number(), items=(Number(), Whole())), (1, 2), [1.0, 2]),
        (MappingOf(Number()), {"a": 1}, {"a": 1.0}),
    ],
)
def test_value_is_read_in_its_own_type(kind: Kind, value: object, read: object) -> None:
    result = kind.read(value)
    assert result == read and type(result) is type(read)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Whole(), 1.5),
        (Whole(), True),
        (Whole(), "3"),
        (Whole(), math.nan),
        (Whole(), math.inf),
        (Whole(), None),
        (Number(), "abc"),
        (Number(), True),
        (Number(), math.nan),
        (Flag(), 1),
        (Flag(), "true"),
        (Text(), 1.5),
        (Text(), True),
        (OneOf((1, 2)), True),
        (OneOf(("a",)), "b"),
        (Either((Whole(), Null())), "x"),
        (ListOf(Number()), 3),
        (ListOf(Number()), ["a"]),
        (ListOf(Number(), items=(Number(), Number())), [1]),
        (MappingOf(Number()), [1]),
        (Part(), {"width": 3}),
        (Part(), "lstm"),
    ],
)
def test_other_values_are_refused(kind: Kind, value: object) -> None:
    with pytest.raises(MismatchError):
        kind.read(value)


def test_a_kind_says_its_choices() -> None:
    assert Either((OneOf(("relu", "gelu")), Null())).wants() == "relu or gelu or null"
