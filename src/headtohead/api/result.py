"""Results of the Python API print a few lines in a console, show a table in a notebook, and hand over a frame."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pandas import DataFrame

_SHOWN_ROWS = 8
_SHOWN_LETTERS = 36
"""The most letters of one cell that are shown on a console."""
_NOTEBOOK_ROWS = 60
Upgraded = TypeVar("Upgraded")


class Result(ABC):
    """Subclasses say their title and their rows."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Return one line on the whole."""

    @abstractmethod
    def as_rows(self) -> Sequence[Mapping[str, object]]:
        """Return the table that `to_frame` hands over, a mapping for each row."""

    @property
    def sentences(self) -> Sequence[str]:
        """Return what stands below the title; verdicts, for example."""
        return ()

    def to_frame(self) -> DataFrame:
        """Return a pandas frame with one row for each mapping of `as_rows()`."""
        from pandas import DataFrame

        return DataFrame(list(self.as_rows()))

    def __eq__(self, other: object) -> bool:
        """Return whether both hold the same, where the other may be the plain object that `upgraded` was given."""
        if not isinstance(self, type(other)) and not isinstance(other, type(self)):
            return NotImplemented
        return is_dataclass(other) and all(
            getattr(self, field.name) == getattr(other, field.name) for field in fields(other)
        )

    def __hash__(self) -> int:
        return super().__hash__()

    def __repr__(self) -> str:
        rows = self.as_rows()
        left = len(rows) - _SHOWN_ROWS
        more = [f"... and {left} more; .to_frame() has all"] if left > 0 else []
        return "\n".join([self.title, *self.sentences, *_aligned(rows[:_SHOWN_ROWS]), *more])

    def _repr_html_(self) -> str:
        paragraphs = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.sentences)
        return f"<p><b>{escape(self.title)}</b></p>{paragraphs}{_html(self.as_rows())}"


def upgraded(kind: type[Upgraded], result: object) -> Upgraded:
    """Return the same fields as an object of a class that derives from the result's own and adds what to show."""
    made = kind.__new__(kind)
    made.__dict__.update(vars(result))
    return made


def cell(value: object) -> str:
    """Return a value as a table shows it."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple | list):
        return ", ".join(map(cell, value))
    return str(value)


def _aligned(rows: Sequence[Mapping[str, object]]) -> list[str]:
    if not rows:
        return []
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = [names, *([_short(cell(row.get(name))) for name in names] for row in rows)]
    widths = [max(len(line[column]) for line in table) for column in range(len(names))]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in table]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_LETTERS else f"{line[: _SHOWN_LETTERS - 3]}..."


_ALIGNED = {True: ' style="text-align: right"', False: ' style="text-align: left"'}
"""Columns of numbers end on one line, and texts begin on one: notebooks set everything to the right."""


def _is_number(value: object) -> bool:
    return value is None or isinstance(value, int | float)


def _html(rows: Sequence[Mapping[str, object]]) -> str:
    if not rows:
        return ""
    names = list(dict.fromkeys(name for row in rows for name in row))
    aligned = {name: _ALIGNED[all(_is_number(row.get(name)) for row in rows)] for name in names}
    head = "".join(f"<th{aligned[name]}>{escape(name)}</th>" for name in names)
    body = "".join(
        f"<tr>{''.join(f'<td{aligned[name]}>{escape(cell(row.get(name)))}</td>' for name in names)}</tr>"
        for row in rows[:_NOTEBOOK_ROWS]
    )
    left = len(rows) - _NOTEBOOK_ROWS
    more = f"<p>... and {left} more; .to_frame() has all</p>" if left > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
