"""Columns within columns: answers.text, translation.de; a dot goes one level down, through lists too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def names_with_nested(columns: Mapping[str, Any]) -> list[str]:
    """The columns of a sample row, those with columns of their own followed by these, with dots."""
    names: list[str] = []
    for name, value in columns.items():
        names.append(name)
        inner = _first_mapping(value)
        if inner is not None:
            names += [f"{name}.{below}" for below in names_with_nested(inner)]
    return names


def split_name(name: str, columns: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The column of a table that holds what the name says, and the way down from there; a column with a dot in its
    own name is itself."""
    if name in columns:
        return name, ()
    first, *rest = name.split(".")
    return first, tuple(rest)


def within(value: Any, way: Sequence[str]) -> Any:
    """What lies so far down in a value; of a list, in each of its entries; None below what is None."""
    if not way or value is None:
        return value
    if isinstance(value, Mapping):
        return within(value[way[0]], way[1:])
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [within(entry, way) for entry in value]
    raise KeyError(way[0])


def _first_mapping(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        return _first_mapping(value[0])
    return None
