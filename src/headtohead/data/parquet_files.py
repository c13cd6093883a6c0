"""Parquet files, the form in which most public sets are handed on (https://parquet.apache.org)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from headtohead.data.contracts import DataError
from headtohead.data.table_files import Columnar, TableFiles


class ParquetFiles(TableFiles):
    """Only the columns that are needed are read."""

    name: ClassVar[str] = "parquet"
    suffixes = (".parquet",)

    def column_names(self, file: Path) -> Sequence[str]:
        return list(_opened(file).schema_arrow.names)

    def columns_of(self, file: Path, names: Sequence[str]) -> Columnar:
        import pyarrow as pa

        try:
            table = _opened(file).read(columns=list(names))
        except (pa.ArrowException, OSError) as error:
            raise _unreadable(file, error) from error
        return Columnar({name: table.column(name).to_pylist() for name in names}, range(1, len(table) + 1))

    def where(self, file: Path | str, number: int) -> str:
        return f"{file}, row {number}"


def _opened(file: Path) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file, error) from error


def _unreadable(file: Path, error: Exception) -> DataError:
    reason = str(error).splitlines()[0]
    return DataError(f"{file} is not a whole Parquet file ({reason}): write it anew, or fetch it again.")
