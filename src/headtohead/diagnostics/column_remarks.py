"""Remarks on the columns of a table: what was guessed of them, and what no run reads of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from headtohead.data.data_source import DataKind
from headtohead.data.sources.columns import DECIMAL_COMMA, names_in_short, usual_parts
from headtohead.diagnostics.column_guess import ColumnFacts, holds_words

_SEPARATED = re.compile(r"[^|;,]+([|;,][^|;,]+)+")
"""Names between bars, semicolons or commas."""
_SHORT = 3.0
"""Words on average up to which a column of such names holds labels, and no sentences."""
_SOME = 0.1
"""The share of rows with several names from which on a column holds lists of them."""


def remarks_on_columns(
    kind: DataKind, parts: Mapping[str, str], facts: Sequence[ColumnFacts], content: Mapping[str, Sequence[object]]
) -> Iterator[str]:
    """Yield what a reader should know of the columns before a run reads some of them."""
    if kind == "pairs_of_text" and usual_parts(list(content)) is None:
        source, target = parts["source"], parts["target"]
        yield (
            f"{source} is read and {target} is written, a guess by their order: exchange data.source_column and "
            f"data.target_column, or read {source} alone, data.text_column={source}"
        )
    used = {name.split(".")[0] for name in parts.values()} | set(parts.values())
    unused = [column for column in facts if column.distinct > 1 and not {column.name, column.name.split(".")[0]} & used]
    for column in unused:
        yield from _on_values(column.name, content.get(column.name, ()), column)
    plain = [column.name for column in unused if column.kind in ("text", "number")]
    if plain and kind in ("language", "pairs_of_text"):
        yield (
            f"not read: {names_in_short(plain)}; data.label_column=NAME makes one the class of its text, "
            "data.score_column=NAME its number"
        )


def _on_values(name: str, values: Sequence[object], column: ColumnFacts) -> Iterator[str]:
    """Yield what keeps the values of a column from being a class or a number."""
    filled = [value for value in values if value not in (None, "")]
    if not filled:
        return
    if column.kind == "list" and all(isinstance(entry, str) for value in filled for entry in _entries(value)):
        if holds_words(column):
            yield f"{name} holds lists of words: to read them, write each as one text, ' '.join(row['{name}'])"
            return
        yield f"{name} holds lists: a run learns one class of a row, so give each class that you ask for its own column"
    elif column.kind == "text" and all(isinstance(value, str) for value in filled):
        texts = [str(value).strip() for value in filled]
        if all(map(DECIMAL_COMMA.fullmatch, texts)):
            yield f"{name} holds numbers with a comma, which are read as words: write them with a point, 0.5"
        elif column.words <= _SHORT and sum(map(bool, map(_SEPARATED.fullmatch, texts))) > _SOME * len(texts):
            yield (
                f"{name} seems to hold several names in a row, as in {_several(texts)!r}: a run learns one class of a "
                "row, so give each class that you ask for its own column"
            )


def _entries(value: object) -> Sequence[object]:
    return value if isinstance(value, list | tuple) else ()


def _several(texts: Sequence[str]) -> str:
    return next(text for text in texts if _SEPARATED.fullmatch(text))
