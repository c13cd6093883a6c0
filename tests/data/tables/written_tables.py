"""Tables written in every format that can be read, and a source of them."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from from_fields import from_fields
from headtohead.data.data_source import DataError
from headtohead.data.sources.csv_files import CsvFiles
from headtohead.data.sources.json_files import JsonFiles
from headtohead.data.sources.parquet_files import ParquetFiles
from headtohead.data.sources.table_files import TableFiles

Row = Mapping[str, Any]


def write(path: Path, rows: Sequence[Row]) -> Path:
    """Write rows in the format of the path's suffix."""
    if path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",")
            writer.writerow(rows[0])
            writer.writerows(
                [" ".join(cell) if isinstance(cell, list) else cell for cell in row.values()] for row in rows
            )
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)
    return path


def source_of(path: Path, **chosen: Any) -> TableFiles:
    ending = path.suffix.removeprefix(".") or next(file.suffix for file in sorted(path.rglob("*.*")))[1:]
    make: Callable[..., TableFiles] = {"json": JsonFiles, "jsonl": JsonFiles, "parquet": ParquetFiles}.get(
        ending, CsvFiles
    )
    return from_fields(make, path=str(path), **{"tokenizer": "char", **chosen})


def refusal(source: Callable[[], TableFiles]) -> str:
    with pytest.raises(DataError) as refused:
        source().prepare()
    return str(refused.value)


LABELLED = [{"text": f'number {row}, "so"', "label": ("no", "yes")[row % 2], "other": row} for row in range(60)]
