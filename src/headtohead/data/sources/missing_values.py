"""Rows that lack a value which their kind of data needs are refused, or left out and counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NoReturn, get_args

from headtohead.data.data_source import DataError

MissingRows = Literal["refuse", "drop"]
"""Refusing names the first row with a missing value; dropping leaves all of them out."""
_WORDS = frozenset({"nan", "na", "n/a", "#n/a", "<na>", "null", "none"})
"""Words that programs write where there is no value."""
_OPTIONAL = frozenset({"id", "answer_start"})
"""Roles that a row may leave empty: its number, and the first occurrence of its answer."""


def missing_parts(row: Mapping[str, object]) -> list[str]:
    """Return the roles that have no value in this row, of those that it needs."""
    return [part for part, value in row.items() if part not in _OPTIONAL and _is_missing(part, value)]


def _is_missing(part: str, value: object) -> bool:
    """An empty list of answers says that there is none; any other empty list says nothing."""
    if part == "answer":
        return _has_no_answer(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return not value or any(map(_is_blank, value))
    if part == "score" and isinstance(value, str) and may_mean_missing(value):
        return True
    return _is_blank(value)


def may_mean_missing(text: str) -> bool:
    """Return whether a text is a word for a missing value, which no number is, and which the name of a class may be."""
    return text.strip().casefold() in _WORDS


def _has_no_answer(value: object) -> bool:
    if isinstance(value, Mapping):  # SQuAD's texts with their positions
        value = value.get("text")
    if isinstance(value, Sequence) and not isinstance(value, str):
        return any(_has_no_answer(entry) for entry in value)
    return _is_blank(value)


def _is_blank(value: object) -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())


def is_blank_document(row: Mapping[str, object]) -> bool:
    """Return whether the text of a row is there, and has nothing in it: corpora separate their documents by such
    rows."""
    text = row["text"]
    return isinstance(text, str) and not text.strip()


def check_missing(missing: str) -> None:
    """Raise DataError for a word that is none of the ways."""
    if missing not in get_args(MissingRows):
        raise DataError(f"data.missing={missing} is unknown: choose one of {', '.join(get_args(MissingRows))}.")


_MUST_BE: Mapping[str, str] = {"label": ", and must be a name or a whole number", "score": ", and must be a number"}


def refuse_missing(row: Mapping[str, object], part: str, where: str) -> NoReturn:
    """Raise DataError for a row in which this part has no value."""
    value = row[part]
    is_list = isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0
    problem = "has an entry that is empty" if is_list else "is empty"
    raise DataError(
        f"{where}: its {part.replace('_', ' ')} {problem}{_MUST_BE.get(part, '')}; correct or remove the row, or leave "
        "out all such rows by data.missing=drop."
    )
