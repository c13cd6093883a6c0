"""Parquet files, the form in which most public sets are handed on (https://parquet.apache.org)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from headtohead.data.data_source import DataError
from headtohead.data.sources.columns import split_name, within
from headtohead.data.sources.table_files import Columnar, TableFiles

_ROWS = 2**14
"""Read at once."""


class ParquetFiles(TableFiles):
    """Parquet files: only the needed columns are read, and some of their rows at once."""

    name: ClassVar[str] = "parquet"
    suffixes = (".parquet",)

    def column_names(self, file: Path) -> Sequence[str]:
        return [name for field in schema_of(file) for name in _names_of(field)]

    def columns_of(self, file: Path, names: Sequence[str]) -> Columnar:
        pieces = list(self.pieces_of(file, names))
        columns = {name: [value for piece in pieces for value in piece.columns[name]] for name in names}
        return Columnar(columns, range(1, sum(len(piece.numbers) for piece in pieces) + 1))

    def pieces_of(self, file: Path, names: Sequence[str]) -> Iterator[Columnar]:
        import pyarrow as pa

        opened = opened_file(file)
        ways = {name: split_name(name, opened.schema_arrow.names) for name in names}
        read = list(dict.fromkeys(column for column, _ in ways.values()))
        first = 1
        try:
            for rows in opened.iter_batches(_ROWS, columns=read):
                columns = {name: _values(rows.column(column), way) for name, (column, way) in ways.items()}
                yield Columnar(columns, range(first, first + len(rows)))
                first += len(rows)
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(file, error) from error

    def where(self, file: Path | str, number: int) -> str:
        return f"{file}, row {number}"


def schema_of(file: Path) -> Any:
    """Return the columns of a file and their types, as Arrow knows them."""
    return opened_file(file).schema_arrow


def _names_of(field: Any) -> list[str]:
    """Return the names of a column and of the columns in it, with dots."""
    import pyarrow as pa

    kind = field.type
    while pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        kind = kind.value_type
    inner = [kind.field(index) for index in range(kind.num_fields)] if pa.types.is_struct(kind) else []
    return [field.name, *(f"{field.name}.{name}" for below in inner for name in _names_of(below))]


def _values(column: Any, way: Sequence[str]) -> list[Any]:
    """Return the values at a path: Arrow unpacks structs, and lists are unpacked one by one."""
    import pyarrow as pa
    from pyarrow import compute

    down = list(way)
    while down and pa.types.is_struct(column.type):
        column = compute.struct_field(column, [down.pop(0)])
    values: list[Any] = column.to_pylist()
    return [within(value, down) for value in values] if down else values


def opened_file(file: Path) -> Any:
    """Open a file, which reads the footer with its schema."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: Exception) -> DataError:
    reason = str(error).splitlines()[0]
    return DataError(f"{file} is not a whole Parquet file ({reason}): write it again, or fetch it again.")
