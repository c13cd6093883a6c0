"""The texts that are searched: a folder of files, a file of paragraphs or lines, or columns of a table."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from headtohead.data.data_source import DataError
from headtohead.data.sources.csv_files import CsvFiles
from headtohead.data.sources.json_files import JsonFiles
from headtohead.data.sources.local_files import FileSplits, decoded, existing_path
from headtohead.files.safe_read import lines_of

Unit = Literal["file", "paragraph", "line"]
TEXTS = (".md", ".txt")
_TABLES = (".csv", ".tsv", ".json", ".jsonl")
_ID_COLUMNS = ("id", "_id", "doc_id", "docid")
"""Names that leave no doubt; `_id` is what BEIR's files have (https://huggingface.co/datasets/BeIR/scifact)."""
_BREAK = re.compile(r"\n[^\S\n]*\n")


@dataclass(frozen=True)
class Collection:
    """Documents by number; ids are theirs, each once."""

    ids: tuple[str, ...]
    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def digest(self) -> str:
        """Return a digest of ids and texts, in their order."""
        return digest_of((*self.ids, *self.texts))

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Return the number of each id."""
        return {name: number for number, name in enumerate(self.ids)}


@dataclass(frozen=True)
class ReadOptions:
    """Read options say how files become documents; None leaves it to the file."""

    unit: Unit | None = None
    """One document per file, paragraph or line; None: files of a folder whole, a file by itself line by line."""
    text_columns: tuple[str, ...] = ()
    """The text columns of a table; several are joined by a blank. If none is named: `text`, or the only column."""
    id_column: str | None = None

    def __post_init__(self) -> None:
        if self.unit not in (None, *get_args(Unit)):
            raise DataError(f"--unit {self.unit} is unknown: choose one of {', '.join(get_args(Unit))}")


def digest_of(texts: Sequence[str]) -> str:
    """Return a digest of texts in their order; two lists share one only if every text is the same."""
    hashed = hashlib.blake2b(digest_size=12)
    for text in texts:
        encoded = text.encode("utf-8", errors="surrogatepass")
        hashed.update(len(encoded).to_bytes(8, "little") + encoded)
    return hashed.hexdigest()


def read_collection(path: str, reading: ReadOptions) -> Collection:
    """Raises DataError where there is no text, or two documents have one id."""
    root = existing_path(path, "PATH", "a folder of .txt or .md files, or a .csv, .tsv, .json or .jsonl file")
    is_table = root.is_file() and root.suffix.lower() in _TABLES
    if is_table and reading.unit is not None:
        raise DataError(f"--unit {reading.unit} has no effect on {path}, whose rows are the documents: leave it out")
    if not is_table and (reading.text_columns or reading.id_column):
        raise DataError(f"--text-column and --id-column name columns of a table, and {path} is not one: leave them out")
    documents = list(table_rows(root, reading) if is_table else _texts(root, reading.unit))
    if not documents:
        raise DataError(f"{path} holds no text: give a folder with .txt or .md files, or a file that is not empty")
    ids, texts = zip(*documents, strict=True)
    collection = Collection(ids, texts)
    if len(collection.numbers) < len(collection):
        twice = next(name for number, name in enumerate(ids) if collection.numbers[name] != number)
        raise DataError(f"{path}: two documents have the id {twice!r}; correct the column of ids, or name another one")
    return collection


def table_rows(file: Path, reading: ReadOptions) -> Iterator[tuple[str, str]]:
    """Id and text of every row that has text; without a column of ids, the number of the line or object."""
    table = (CsvFiles if file.suffix.lower() in (".csv", ".tsv") else JsonFiles)(files=FileSplits(path=str(file)))
    names = list(table.column_names(file))
    text_columns = reading.text_columns or (_text_column(names, file),)
    texts = [_known(name, names, file, "--text-column") for name in text_columns]
    ids = _known(reading.id_column, names, file, "--id-column") if reading.id_column else _id_column(names, texts)
    columns = table.columns_of(file, [*texts, *([] if ids is None else [ids])])
    for index, number in enumerate(columns.numbers):
        parts = [columns.columns[name][index] for name in texts]
        wrong = next((part for part in parts if part is not None and not isinstance(part, str | int | float)), None)
        if wrong is not None:
            raise DataError(f"{file}, row {number}: {wrong!r} is not text; name another --text-column")
        text = " ".join(str(part) for part in parts if part is not None and str(part).strip())
        if text:
            yield str(number if ids is None else columns.columns[ids][index]), text


def _text_column(names: Sequence[str], file: Path) -> str:
    others = [name for name in names if name.lower() not in _ID_COLUMNS]
    if "text" in names:
        return "text"
    if len(others) == 1:
        return others[0]
    raise DataError(f"{file} has the columns {', '.join(names)}: name the one with the text, --text-column {others[0]}")


def _id_column(names: Sequence[str], texts: Sequence[str]) -> str | None:
    return next((name for name in names if name.lower() in _ID_COLUMNS and name not in texts), None)


def _known(name: str, names: Sequence[str], file: Path, option: str) -> str:
    if name not in names:
        raise DataError(f"{option} {name}: {file} has no such column, it has {', '.join(names)}")
    return name


def _texts(path: Path, unit: Unit | None) -> Iterator[tuple[str, str]]:
    """Ids are paths below the folder, with the line where a part begins."""
    if path.is_file() and path.suffix.lower() not in TEXTS:
        raise DataError(f"{path} is not a kind of file that is read: give {', '.join((*TEXTS, *_TABLES))}, or a folder")
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.suffix.lower() in TEXTS)
    for file in files:
        if not file.is_file():
            continue
        name = file.name if path.is_file() else file.relative_to(path).as_posix()
        text = decoded(file, "utf-8", may_differ=False)
        for line, part in _parts(text, unit or ("line" if path.is_file() else "file")):
            yield (name if line is None else f"{name}:{line}"), part


def _parts(text: str, unit: Unit) -> Iterator[tuple[int | None, str]]:
    """Parts that are not blank, and the line each begins in."""
    if unit == "file":
        if text.strip():
            yield None, text.strip()
        return
    if unit == "line":
        yield from ((number, line.strip()) for number, line in enumerate(lines_of(text), 1) if line.strip())
        return
    start = 0
    for end, following in [(match.start(), match.end()) for match in _BREAK.finditer(text)] + [(len(text), len(text))]:
        part = text[start:end]
        if part.strip():
            before = start + len(part) - len(part.lstrip())
            yield text.count("\n", 0, before) + 1, part.strip()
        start = following
