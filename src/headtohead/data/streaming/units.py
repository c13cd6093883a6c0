"""Row groups of Parquet files, here or on a hub: what a stream reads at once, by number and in any order."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from headtohead.data.contracts import DataError

_ON_A_HUB = "hf://"
_AT_ONCE = 8
"""Files of a hub whose ends, which tell their row groups, are asked for together."""
_READING = threading.Lock()
"""An open file has one place that is read next."""


@dataclass(frozen=True)
class Unit:
    """So many neighbouring rows of one file."""

    file: int
    """Which of the corpus's files."""
    row_group: int
    num_rows: int


def units_of(addresses: Sequence[str], column: str) -> list[Unit]:
    """All that the files hold, in their order; only their ends are read."""
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        sizes = list(threads.map(lambda address: _sizes(address, column), addresses))
    return [Unit(file, group, num_rows) for file, groups in enumerate(sizes) for group, num_rows in enumerate(groups)]


def texts_of(address: str, row_group: int, column: str) -> list[str]:
    """One column of a row group, in its order."""
    import pyarrow as pa

    with _READING:
        try:
            read = _opened(address, os.getpid()).read_row_group(row_group, columns=[column])
        except (pa.ArrowException, OSError) as error:
            _opened.cache_clear()
            reason = str(error).splitlines()[0]
            raise DataError(f"row group {row_group} of {address} cannot be read ({reason}): try again.") from error
    return [text or "" for text in read.column(column).to_pylist()]


def _sizes(address: str, column: str) -> list[int]:
    import pyarrow as pa

    file = _open(address)
    names = file.schema_arrow.names
    if column not in names:
        raise DataError(
            f"data.text_column={column} is not a column of {address}, which has {', '.join(names)}: choose one of them."
        )
    kind = file.schema_arrow.field(column).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise DataError(f"data.text_column={column} of {address} holds {kind}, not texts: choose a column of texts.")
    return [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]


@lru_cache(maxsize=16)
def _opened(address: str, process: int) -> Any:
    """Kept open, since a file's end is long; each process opens its own."""
    del process
    return _open(address)


def _open(address: str) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        if address.startswith(_ON_A_HUB):
            from huggingface_hub import HfFileSystem

            from headtohead.data.places import hub_endpoint

            return parquet.ParquetFile(HfFileSystem(endpoint=hub_endpoint()).open(address, "rb"))
        return parquet.ParquetFile(address)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(
            f"{address} cannot be read as Parquet ({reason}): a stream reads whole Parquet files alone, so fetch it "
            f"again, or give another set."
        ) from error
