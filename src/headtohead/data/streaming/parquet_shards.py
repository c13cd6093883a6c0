"""A stream reads row groups of Parquet files, local or on a hub, by number and in any order."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from headtohead.data.data_source import DataError
from headtohead.data.sources.hub.image_columns import (
    ChosenImageColumns,
    check_schema,
)

_ON_A_HUB = "hf://"
_AT_ONCE = 8
"""Files of a hub whose footers, which list their row groups, are read together."""
_READING = threading.Lock()
"""A lock for an open file, which has a single read position."""


Check = Callable[[str, Any], None]
"""A check of an address and its Arrow schema, which raises DataError."""


@dataclass(frozen=True)
class Shard:
    """A contiguous range of rows of one file."""

    file: int
    """The index of the corpus's file."""
    row_group: int
    num_rows: int


def shards_of(addresses: Sequence[str], column: str) -> list[Shard]:
    """Return all shards of the files, in their order, with texts in this column; only the footers are read."""
    return checked_shards_of(addresses, lambda address, schema: _check_texts(address, schema, column))


def checked_shards_of(addresses: Sequence[str], check: Check) -> list[Shard]:
    """Return the same for columns of any kind."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        sizes = list(threads.map(lambda address: _sizes(address, check), addresses))
    return [Shard(file, group, num_rows) for file, groups in enumerate(sizes) for group, num_rows in enumerate(groups)]


def texts_of(address: str, row_group: int, column: str) -> list[str]:
    """Return one column of a row group, in its order."""
    return [text or "" for text in table_of(address, row_group, [column]).column(column).to_pylist()]


def schema_at(address: str) -> Any:
    """Return the columns of a file and their types, as Arrow knows them; only its footer is read."""
    return _open(address).schema_arrow


def table_of(address: str, row_group: int, columns: Sequence[str]) -> Any:
    """Return some columns of a row group as an Arrow table."""
    import pyarrow as pa

    with _READING:
        try:
            return _opened(address, os.getpid()).read_row_group(row_group, columns=list(columns))
        except (pa.ArrowException, OSError) as error:
            _opened.cache_clear()
            reason = str(error).splitlines()[0]
            raise DataError(f"row group {row_group} of {address} cannot be read ({reason}): try again.") from error


def _sizes(address: str, check: Check) -> list[int]:
    file = _open(address)
    check(address, file.schema_arrow)
    return [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]


def _check_texts(address: str, schema: Any, column: str) -> None:
    import pyarrow as pa

    names = schema.names
    if column not in names:
        raise DataError(
            f"data.text_column={column} is not a column of {address}, which has {', '.join(names)}: choose one of them."
        )
    kind = schema.field(column).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise DataError(f"data.text_column={column} of {address} holds {kind}, not texts: choose a column of texts.")


@lru_cache(maxsize=16)
def _opened(address: str, process: int) -> Any:
    """Return an open file, since a footer is long; each process opens its own."""
    del process
    return _open(address)


def _open(address: str) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        if address.startswith(_ON_A_HUB):
            from huggingface_hub import HfFileSystem

            from headtohead.data.cache.paths import hub_endpoint

            return parquet.ParquetFile(HfFileSystem(endpoint=hub_endpoint()).open(address, "rb"))
        return parquet.ParquetFile(address)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"{address} cannot be read as Parquet ({reason}): a stream reads only whole Parquet files, so fetch it "
            f"again, or give another set."
        ) from error


@dataclass(frozen=True)
class TrainShard:
    """The part of a row group that training reads."""

    number: int
    """The number of the row group, among all."""
    num_rows: int
    held_out: int
    """Rows before those."""


def schema_check_for(chosen: ChosenImageColumns) -> Any:
    return lambda address, schema: check_schema(address, schema, (chosen.image, chosen.label))
