"""Rows of the files that a set is published as: Parquet, JSON and tables of text, packed by gzip or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headtohead.data.contracts import DataError
from headtohead.data.hub.features import features_of_arrow, features_of_parquet
from headtohead.data.hub.splitting import SUFFIXES
from headtohead.data.tables.csv_files import CsvFiles
from headtohead.data.tables.json_files import JsonFiles
from headtohead.data.tables.parquet_files import ParquetFiles
from headtohead.data.tables.table_files import Columnar, TableFiles


def column_names(file: Path) -> Sequence[str]:
    """Nested ones with dots; read as little of the file as that takes."""
    return _reader(file).column_names(file)


def columns_of(file: Path, names: Sequence[str]) -> Columnar:
    """These columns, whole; a dot goes into a nested one. For the names that `column_names` gives."""
    return _reader(file).columns_of(file, names)


def pieces_of(file: Path, names: Sequence[str]) -> Iterator[Columnar]:
    """The same, some rows after others where a file can be read so."""
    return _reader(file).pieces_of(file, names)


def features_of(file: Path) -> Mapping[str, Any]:
    """Types of the columns in the words of `datasets`: as a Parquet file says, else as the first row looks."""
    if file.name.lower().endswith(".parquet"):
        return features_of_parquet(file)
    reader = _reader(file)
    names = [name for name in reader.column_names(file) if "." not in name]
    table = reader.columns_of(file, names)
    return features_of_arrow([{name: table.columns[name][0] for name in names}] if len(table.numbers) else [])


def where(file: Path | str, number: int) -> str:
    return _reader(Path(file)).where(file, number)


def _reader(file: Path) -> TableFiles:
    name = file.name.lower().removesuffix(".gz")
    if name.endswith(".parquet"):
        return ParquetFiles(path=str(file))
    if name.endswith((".json", ".jsonl", ".ndjson")):
        return JsonFiles(path=str(file))
    if name.endswith((".csv", ".tsv")):
        return CsvFiles(path=str(file))
    raise DataError(f"{file} cannot be read: give one of {', '.join(SUFFIXES)}.")
