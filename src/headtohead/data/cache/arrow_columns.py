"""Columns on disk: files of Arrow's stream format, as `datasets` has them too, read memory-mapped, each column one
numpy array. It takes most of a second to import `datasets`, which nothing here needs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from headtohead.files.safe_read import open_regular


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths, end to end: row i is values[offsets[i]:offsets[i + 1]]."""

    values: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of_lengths(cls, values: np.ndarray, lengths: np.ndarray) -> Ragged:
        return cls(values, np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def chosen(self, rows: np.ndarray) -> Ragged:
        """Return only these rows, in this order."""
        starts, lengths = self.offsets[rows], self.lengths[rows]
        chosen = Ragged.of_lengths(self.values[:0], lengths)
        indices = np.arange(chosen.offsets[-1]) + np.repeat(starts - chosen.offsets[:-1], lengths)
        return Ragged(self.values[indices], chosen.offsets)

    def cut(self, longest: np.ndarray) -> Ragged:
        """Truncate each row to a length of its own."""
        lengths = np.minimum(self.lengths, longest)
        is_within = np.arange(len(self.values)) - np.repeat(self.offsets[:-1], self.lengths) < np.repeat(
            lengths, self.lengths
        )
        return Ragged.of_lengths(self.values[is_within], lengths)


Column = np.ndarray | Ragged
"""One value per row (one axis), one vector per row (two axes), or a row of any length."""
Table = Mapping[str, Column]


def ragged(table: Table, column: str) -> Ragged:
    """Return a column of rows of any length."""
    result = table[column]
    assert isinstance(result, Ragged)
    return result


def numbers(table: Table, column: str) -> np.ndarray:
    """Return a column of one value or vector per row."""
    result = table[column]
    assert isinstance(result, np.ndarray)
    return result


def smallest_integer(largest: int) -> np.dtype:
    """Return the narrowest integer type for 0 to `largest`."""
    return np.min_scalar_type(largest)


def write_table(path: Path, table: Table) -> None:
    """Write one record batch, so that each column is contiguous and reads back without a copy."""
    import pyarrow as pa

    content = pa.table({name: _to_arrow(column) for name, column in table.items()})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, content.schema) as writer:
        writer.write_table(content, max_chunksize=max(len(content), 1))


def read_table(path: Path) -> dict[str, Column]:
    """Return views of the file: nothing is read before it is used."""
    import pyarrow as pa

    open_regular(path).close()  # a pipe would be waited for
    content = pa.ipc.open_stream(pa.memory_map(str(path))).read_all()
    return {name: _from_arrow(content.column(name).chunk(0)) for name in content.column_names}


def describe_size(column: Column) -> dict[str, Any]:
    """Return its type and size: enough to notice that a file was truncated."""
    values = column.values if isinstance(column, Ragged) else column
    return {"rows": len(column), "values": int(values.size), "type": str(values.dtype)}


def describe_column(column: Column) -> dict[str, Any]:
    """Return what identifies the content of a column: its type, its size, and a digest."""
    return {**describe_size(column), "digest": digest_of(column)}


def digest_of(column: Column) -> str:
    hashed = hashlib.blake2b(digest_size=16)
    for part in (column.values, column.offsets) if isinstance(column, Ragged) else (column,):
        hashed.update(np.ascontiguousarray(part).data.cast("B"))
    return hashed.hexdigest()


def size_in_bytes(column: Column) -> int:
    return column.values.nbytes + column.offsets.nbytes if isinstance(column, Ragged) else column.nbytes


def slices(num_rows: int, size: int) -> list[slice]:
    """Split rows into slices of at most `size`, for work that would need too much memory at once."""
    edges = [*range(0, num_rows, size), num_rows]
    return [slice(start, stop) for start, stop in pairwise(edges)]


def _to_arrow(column: Column) -> Any:
    import pyarrow as pa

    if isinstance(column, Ragged):
        return pa.LargeListArray.from_arrays(_numbers(column.offsets.astype(np.int64)), _numbers(column.values))
    if column.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(_numbers(column.reshape(-1)), column.shape[1])
    return _numbers(column)


def _numbers(array: np.ndarray) -> object:
    """Return an array of Arrow over the same buffer; `pa.array` would import pandas to see that it is none of its."""
    import pyarrow as pa

    buffer = pa.py_buffer(np.ascontiguousarray(array))
    made: object = pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), len(array), [None, buffer])
    return made


def _from_arrow(array: Any) -> Column:
    import pyarrow as pa

    if pa.types.is_large_list(array.type):
        return Ragged(_flat(array.values), _flat(array.offsets))
    if pa.types.is_fixed_size_list(array.type):
        return _flat(array.values).reshape(-1, array.type.list_size)
    return _flat(array)


def _flat(array: Any) -> np.ndarray:
    """Return a view of one buffer of numbers. Arrow's own `to_numpy` would import pandas, half a second, to return the
    same."""
    import pyarrow as pa

    if array.null_count or not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
        raise pa.ArrowInvalid(f"a column of {array.type} with {array.null_count} gaps is not an array of numbers")
    numbers_type = np.dtype(array.type.to_pandas_dtype())
    if not len(array):
        return np.empty(0, numbers_type)
    return np.frombuffer(array.buffers()[1], numbers_type, len(array), array.offset * numbers_type.itemsize)
