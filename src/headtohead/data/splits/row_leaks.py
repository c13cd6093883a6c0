"""Prepared rows whose validation and test are looked for in train: images by their pixels, problems by their tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from headtohead.data.cache.arrow_columns import Column, Ragged, Table, numbers
from headtohead.data.cache.prepared_content import PreparedContent
from headtohead.data.data_source import SPLIT_NAMES, DataError
from headtohead.data.splits.leaks import HELD_OUT, LEAKS, Compared, Matches, expected_repeats, leaks_between

_READ = ("image", "tokens", "source")
"""Columns that a model reads: their rows are compared."""


def with_leaks(made: PreparedContent, *, drop: bool, draws: bool) -> PreparedContent:
    """Return the same content with the count of held-out rows that occur in train; `drop` removes them from train.

    `draws` means that rows are drawn from a known space, in which some repeat.
    """
    if any(_column_of(made, name) is None for name in SPLIT_NAMES):  # a stream, which has no train table
        return made
    if drop:
        made = _without(made)
    rows = {str(name): _rows_of(made, name) for name in SPLIT_NAMES}
    facts = leaks_between(rows, _as_it_is)
    if draws:
        sizes = {name: facts[name]["rows"] for name in HELD_OUT}
        facts["expected"] = expected_repeats(rows["train"], _as_it_is, sizes)
    return replace(made, facts={**made.facts, LEAKS: facts})


def leaks_of(tables: Mapping[str, Table]) -> dict[str, Any]:
    """Return what of validation and test occurs in these rows of train."""
    made = PreparedContent(tables)
    return leaks_between({str(name): _rows_of(made, name) for name in SPLIT_NAMES}, _as_it_is)


def _without(made: PreparedContent) -> PreparedContent:
    matches = Matches.of({name: _rows_of(made, name) for name in HELD_OUT}, _as_it_is)
    shared = np.array([matches.shares(_as_it_is(row)[0]) for row in _rows_of(made, "train")])
    remaining = np.flatnonzero(~shared)
    if not len(remaining):
        raise DataError("data.drop_shared=true leaves no row to train on: all of them occur in validation or test.")
    train = {name: _chosen(column, remaining) for name, column in made.tables["train"].items()}
    return replace(made, tables={**made.tables, "train": train})


def _chosen(column: Column, rows: np.ndarray) -> Column:
    return column.chosen(rows) if isinstance(column, Ragged) else np.asarray(column)[rows]


def _rows_of(made: PreparedContent, name: str) -> _Rows:
    """Return the rows of a split that has a table."""
    compared = _column_of(made, name)
    assert compared is not None, f"the {name} split has no table"
    return _Rows(*compared)


def _column_of(made: PreparedContent, name: str) -> tuple[Column, np.ndarray] | None:
    """Return the compared column and the split's rows in it; None where the split has no table."""
    table: Table = made.tables.get(name, {})
    indices = None
    if "place" in table:
        indices = numbers(table, "place")
        table = made.tables[made.facts["splits"][name]]
    column = next((table[name] for name in _READ if name in table), None)
    if column is None:
        return None
    return column, np.arange(len(column)) if indices is None else indices


class _Rows:
    """Rows of a column as bytes, which can be iterated repeatedly."""

    def __init__(self, column: Column, indices: np.ndarray) -> None:
        self._column, self._indices = column, indices

    def __iter__(self) -> Iterator[bytes]:
        return (self._column[index].tobytes() for index in self._indices.tolist())


def _as_it_is(row: Any) -> Sequence[Compared]:
    return ((row, row),)
