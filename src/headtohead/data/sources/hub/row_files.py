"""Rows of the files that a set is published as: Parquet, JSON and tables of text, packed by gzip or not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headtohead.data.data_source import DataError
from headtohead.data.sources.csv_files import CsvFiles
from headtohead.data.sources.hub import row_files
from headtohead.data.sources.hub.column_types import features_of_arrow, features_of_parquet
from headtohead.data.sources.hub.dataset_location import DatasetLocation
from headtohead.data.sources.hub.hub_answers import hub_errors
from headtohead.data.sources.hub.hub_memory import recall, remember
from headtohead.data.sources.hub.repository_listing import RepositoryFile
from headtohead.data.sources.hub.split_files import SUFFIXES
from headtohead.data.sources.json_files import JsonFiles
from headtohead.data.sources.local_files import FileSplits
from headtohead.data.sources.parquet_files import ParquetFiles
from headtohead.data.sources.table_files import Columnar, TableFiles


def column_names(file: Path) -> Sequence[str]:
    """Return the column names, nested ones with dots, reading as little of the file as possible."""
    return _reader(file).column_names(file)


def columns_of(file: Path, names: Sequence[str]) -> Columnar:
    """Return these columns as a whole; a dot leads into a nested one. The names are those of `column_names`."""
    return _reader(file).columns_of(file, names)


def pieces_of(file: Path, names: Sequence[str]) -> Iterator[Columnar]:
    """Yield the same in pieces of rows where the format allows it."""
    return _reader(file).pieces_of(file, names)


def features_of(file: Path) -> Mapping[str, object]:
    """Return the types of the columns in terms of `datasets`: those of a Parquet file, else inferred from the first
    row."""
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
        return ParquetFiles(files=FileSplits(path=str(file)))
    if name.endswith((".json", ".jsonl", ".ndjson")):
        return JsonFiles(files=FileSplits(path=str(file)))
    if name.endswith((".csv", ".tsv")):
        return CsvFiles(files=FileSplits(path=str(file)))
    raise DataError(f"{file} cannot be read: give one of {', '.join(SUFFIXES)}.")


@dataclass(frozen=True)
class Schema:
    column_names: Sequence[str]
    """Nested ones with dots."""
    features: Mapping[str, object]
    """The features in terms of `datasets`."""


def schema_of(located: DatasetLocation, listed: RepositoryFile, file: Path) -> Schema:
    """Return the schema; `file` is where the listed one is on this machine."""
    published = located.published
    if published.folder is not None or file.name.lower().endswith(".parquet"):
        return Schema(row_files.column_names(file), row_files.features_of(file))
    name, key = str(published.name), f"columns-{located.revision}-{_short(listed.path)}"
    known = _from_json(recall(name, key))
    if known is None:
        known = Schema(row_files.column_names(file), row_files.features_of(file))
        with hub_errors(published):
            remember(name, key, _as_json(known))
    return known


def _short(path: str) -> str:
    """Return a hash of a path, which may be too long for a file name and contain any character."""
    return hashlib.sha256(path.encode()).hexdigest()[:24]


def _as_json(schema: Schema) -> dict[str, Any]:
    from datasets import Features

    return {"column_names": list(schema.column_names), "features": Features(schema.features).to_dict()}


def _from_json(known: Any) -> Schema | None:
    """Return the schema; None where it is missing or incomplete."""
    from datasets import Features

    try:
        return Schema(known["column_names"], Features.from_dict(known["features"]))
    except (TypeError, KeyError, ValueError, AttributeError):
        return None
