"""Guess which column of a table plays which part, from its name and its values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Any

from headtohead.data.data_source import DataKind
from headtohead.data.sources.columns import looks_like_a_row, usual_parts

_FEW_CLASSES = 50
_ROWS_OF_A_CLASS = 3.0
_LABEL_NAMES = (
    "label", "class", "category", "target", "rating", "stars", "sentiment", "tag", "y", "intent", "topic", "genre",
    "emotion",
)  # fmt: skip
_SCORE_NAMES = (*_LABEL_NAMES, "score", "grade", "similarity")
_SENTENCE = 3.0
"""Words on average from which on a column holds sentences, and no names."""
_NOT_A_LETTER = re.compile(r"[^a-z]+")
_ID_NAMES = ("id", "index", "idx", "uid", "")


@dataclass(frozen=True)
class ColumnFacts:
    """Column facts are what the rows of a file show of a column."""

    name: str
    kind: str
    """text, number, list, record, bytes or empty."""
    distinct: int
    """The number of different values, of the rows that have one."""
    words: float
    """The number of words on average, of the same rows."""
    example: str
    """The value of the first of them."""
    filled: int = 0
    """The number of rows that have a value."""


def facts_of(name: str, values: Sequence[object]) -> ColumnFacts:
    """Return the facts of one column."""
    values = [value for value in values if value not in (None, "")]
    kinds = {_kind(value) for value in values}
    kind = kinds.pop() if len(kinds) == 1 else "text" if kinds else "empty"
    texts = [" ".join(map(str, value)) if isinstance(value, list | tuple) else str(value) for value in values]
    words = fmean(len(text.split()) for text in texts) if texts else 0.0
    return ColumnFacts(name, kind, len(set(texts)), words, texts[0] if texts else "", len(texts))


def first_line_is_a_row(header: Sequence[str], columns: Mapping[str, Sequence[object]]) -> bool:
    """Return whether a header looks like a row: a number or a sentence, or a value that stands below it too."""
    return looks_like_a_row(header) or any(name in {str(value) for value in columns[name]} for name in header)


def guessed_parts(
    columns: Sequence[ColumnFacts], content: Mapping[str, Sequence[object]]
) -> tuple[DataKind, dict[str, str]] | None:
    """Return the kind of data and the column of each part; None where nothing is likely."""
    num_rows = max(map(len, content.values()))
    if (usual := usual_parts([column.name for column in columns])) is not None:
        named = [column for column in columns if _is_named_label(column)] if usual[0] == "language" else []
        if (label := _label(named, num_rows)) is not None:
            return "labelled_text", {**usual[1], "label": label.name}
        score = _score(columns, _SCORE_NAMES) if usual[0] == "language" else None
        return usual if score is None else ("scored_text", {**usual[1], "score": score.name})
    texts = sorted((column for column in columns if column.kind == "text"), key=lambda column: -column.words)
    text = next((column for column in texts if column.distinct > 1), None)
    lists = [column for column in columns if column.kind == "list"]
    if text is None or (any(map(holds_words, lists)) and _is_class_of_words(text, num_rows)):
        return _words_with_tags([column.name for column in lists], content)
    others = [column for column in columns if column is not text and column.name.lower() not in _ID_NAMES]
    label = _label(others, num_rows)
    if label is not None:
        return "labelled_text", {"text": text.name, "label": label.name}
    if (score := _score(others)) is not None:
        return "scored_text", {"text": text.name, "score": score.name}
    sentences = [column.name for column in columns if column in texts and _holds_sentences(column, num_rows)]
    if len(sentences) == 2:
        return "pairs_of_text", dict(zip(("source", "target"), sentences, strict=True))
    return "language", {"text": text.name}


def _words_with_tags(
    names: Sequence[str], content: Mapping[str, Sequence[object]]
) -> tuple[DataKind, dict[str, str]] | None:
    """Return the two lists that have as many entries in each row that has both, where there are two: the words are more
    different than their tags."""
    lists = {name: [value if isinstance(value, list) else [] for value in content[name]] for name in names}
    both = {
        names: [(len(a), len(b)) for a, b in zip(*map(lists.__getitem__, names), strict=True) if a and b]
        for names in combinations(names, 2)
    }
    pairs = [names for names, lengths in both.items() if lengths and all(a == b for a, b in lengths)]
    if len(pairs) != 1:
        return None
    different = {name: len({str(entry) for value in lists[name] for entry in value}) for name in pairs[0]}
    words, tags = sorted(pairs[0], key=lambda name: -different[name])
    if not all(entry is None or isinstance(entry, str) for value in lists[words] for entry in value):
        return None
    return "tagged_text", {"text": words, "tags": tags}


def holds_words(column: ColumnFacts) -> bool:
    """Return whether the lists of a column are as long as sentences, and different."""
    return column.kind == "list" and column.words >= _SENTENCE and column.distinct > 1


def _is_class_of_words(text: ColumnFacts, num_rows: int) -> bool:
    """Return whether the longest text of a table is the class of what stands beside it."""
    return text.words < _SENTENCE and _label([text], num_rows) is not None


def likely_label(columns: Sequence[ColumnFacts], num_rows: int) -> ColumnFacts | None:
    """Return the column that is a class of its row, by its name or its few values; None where none is."""
    return _label([column for column in columns if column.name.lower() not in _ID_NAMES], num_rows)


def _holds_sentences(column: ColumnFacts, num_rows: int) -> bool:
    return column.words >= _SENTENCE and 2 * column.distinct > num_rows


def _score(columns: Sequence[ColumnFacts], names: Sequence[str] = ()) -> ColumnFacts | None:
    """Return the first column of many numbers, of those with one of these names where there are any."""
    many = (column for column in columns if column.kind == "number" and column.distinct > _FEW_CLASSES)
    return next((column for column in many if not names or _has_name(column, names)), None)


def _label(columns: Sequence[ColumnFacts], num_rows: int) -> ColumnFacts | None:
    """Return the column with the name of a label and few values, else the one of the fewest values."""
    classes = [
        column
        for column in columns
        if 2 <= column.distinct <= max(2.0, column.filled / _ROWS_OF_A_CLASS) and column.kind not in ("list", "record")
    ]
    few = [column for column in classes if column.distinct <= _FEW_CLASSES]
    many = [column for column in classes if column.kind == "text" and column.distinct > _FEW_CLASSES]
    named = [column for column in (*few, *many) if _is_named_label(column)]
    filled = [column for column in few if 2 * column.filled >= num_rows]
    return min(named or filled, key=lambda column: column.distinct, default=None)


def _is_named_label(column: ColumnFacts) -> bool:
    return _has_name(column, _LABEL_NAMES)


def _has_name(column: ColumnFacts, names: Sequence[str]) -> bool:
    return not set(_NOT_A_LETTER.split(column.name.lower())).isdisjoint(names)


def _kind(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "list"
    if isinstance(value, Mapping):
        return "record"
    if isinstance(value, bytes):
        return "bytes"
    if isinstance(value, bool):
        return "text"
    try:
        float(value)
    except (TypeError, ValueError):
        return "text"
    return "number"
