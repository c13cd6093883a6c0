"""JSON: one object per line (https://jsonlines.org), a list of objects, or SQuAD's file of articles."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from headtohead.data.data_source import DataError
from headtohead.data.sources.columns import names_with_nested, split_name, within
from headtohead.data.sources.local_files import decoded
from headtohead.data.sources.table_files import Columnar, TableFiles

_ENCODING = "utf-8"
"""The encoding that the standard asks for (RFC 8259)."""


_FIRST = 1_000
"""The objects that are looked at for the names of columns."""


class JsonFiles(TableFiles):
    """The columns of a file are the keys of its first objects, each of which may leave out some."""

    name: ClassVar[str] = "json"
    suffixes = (".json", ".jsonl", ".ndjson")

    def column_names(self, file: Path) -> Sequence[str]:
        names: dict[str, None] = {}
        for _, record in islice(_objects(file), _FIRST):
            names |= dict.fromkeys(names_with_nested(record))
        if not names:
            raise DataError(f"{file} holds no objects: give one per line, or a list of them.")
        return list(names)

    def columns_of(self, file: Path, names: Sequence[str]) -> Columnar:
        columns: dict[str, list[Any]] = {name: [] for name in names}
        numbers: list[int] = []
        for number, record in _objects(file):
            numbers.append(number)
            for name in names:
                column, way = split_name(name, list(record))
                try:
                    columns[name].append(within(record[column], way))
                except KeyError:  # a key that an object leaves out is a value that it lacks
                    columns[name].append(None)
        return Columnar(columns, numbers)

    def where(self, file: Path | str, number: int) -> str:
        return f"{file}, {'line' if {'.jsonl', '.ndjson'} & set(Path(file).suffixes) else 'object'} {number}"


def _objects(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield objects with their numbers, from 1: of the line in a file of lines, else of the object."""
    try:
        yield from _parsed(file)
    except RecursionError:
        raise DataError(f"{file} is nested deeper than rows of data are: give objects with values.") from None
    except DataError:
        raise
    except ValueError as error:  # a number of thousands of digits
        raise DataError(f"{file} holds a value that cannot be read ({str(error).partition(';')[0]}).") from None


def _parsed(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    text = decoded(file, _ENCODING, may_differ=False)
    for number, row in _of_lines(file, text) if _has_lines(text) else enumerate(_of_document(file, text), 1):
        if not isinstance(row, dict):
            raise DataError(f"{file}: entry {number} is not an object with named values, but {str(row)[:60]!r}.")
        yield number, row


def _has_lines(text: str) -> bool:
    """Return whether the first non-blank line is an object by itself, and not the only one with rows inside."""
    lines = text.lstrip().split("\n", 1)
    try:
        first = json.loads(lines[0]) if lines[0].startswith("{") else None
    except json.JSONDecodeError:
        return len(lines) > 1 and lines[1].lstrip().startswith("{")
    return first is not None and not _rows_within(first)


def _of_lines(file: Path, text: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except json.JSONDecodeError as error:
                raise _no_json(file, number, error) from error


def _no_json(file: Path, line: int, error: json.JSONDecodeError) -> DataError:
    otherwise = ", or read the file by data=csv" if file.suffix.lower() in (".csv", ".tsv", ".txt") else ""
    return DataError(f"{file}, line {line} is not JSON ({error.msg}, column {error.colno}): correct it{otherwise}.")


def _of_document(file: Path, text: str) -> Sequence[Any]:
    if not text.strip():
        return []
    try:
        result = json.loads(text)
    except json.JSONDecodeError as error:
        raise _no_json(file, error.lineno, error) from error
    if isinstance(result, list):
        return result
    rows = _rows_within(result) if isinstance(result, dict) else []
    if rows and "paragraphs" in rows[0]:
        return [question for article in rows for question in _questions(article)]
    if not rows:
        raise DataError(f'{file} must hold an object per line, a list of objects, or {{"data": [objects]}}.')
    return rows


def _rows_within(content: Mapping[str, object]) -> Sequence[Any]:
    rows = content.get("data")
    return rows if isinstance(rows, list) and rows and isinstance(rows[0], dict) else []


def _questions(article: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the questions of SQuAD's articles, which have paragraphs, which have questions. The title of the article is
    a column too, as in the published tables of them."""
    titled = {"title": article["title"]} if "title" in article else {}
    for paragraph in article["paragraphs"]:
        for question in paragraph["qas"]:
            yield {**titled, "context": paragraph["context"], **question}
