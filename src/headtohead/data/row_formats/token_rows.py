"""Rows of tokens cut from concatenated documents: packed ones of one length, and padded ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from torch import Tensor

from headtohead.data.batches.batch import Batch
from headtohead.data.cache.arrow_columns import Ragged, Table, ragged, smallest_integer
from headtohead.data.cache.cached_source import CachedSource, CachedSplit
from headtohead.data.data_source import SplitName
from headtohead.data.tokenizers import PAD, UNK, SpecialIds, Tokenizer


@runtime_checkable
class CountsBytes(Protocol):
    """A counter of the bytes of text that a row's tokens stand for."""

    def count(self, tokens: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> Tensor:
        """Count the bytes of `tokens`, which are the stream from `starts` to `stops`; padding stands for none."""


class ByteCounter:
    """The UTF-8 bytes of tokens; those of unknown characters, which differ, are stored one by one."""

    def __init__(self, byte_lengths: np.ndarray, stream: np.ndarray, unknown_bytes: np.ndarray) -> None:
        # A narrow table stays in the processor's cache.
        self._byte_lengths = byte_lengths.astype(smallest_integer(int(byte_lengths.max())))
        self._unknown_positions = np.flatnonzero(stream == UNK) if len(unknown_bytes) else np.zeros(0, dtype=np.int64)
        self._sums = np.concatenate([[0], np.cumsum(unknown_bytes, dtype=np.int64)])

    def count(self, tokens: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> Tensor:
        """Count the bytes of `tokens`, which are the stream from `starts` to `stops`; padding stands for none."""
        total = int(self._byte_lengths.take(tokens).sum())
        if len(self._unknown_positions):
            first, last = (
                np.searchsorted(self._unknown_positions, starts),
                np.searchsorted(self._unknown_positions, stops),
            )
            total += int((self._sums[last] - self._sums[first]).sum())
        return torch.tensor(total)


class PackedRows(CachedSplit):
    """A stream cut into rows of L + 1 tokens, each beginning with the last of the row before: every token is predicted
    once. With `borders`, documents within a row do not see each other, and positions start again with each."""

    def __init__(
        self,
        source: CachedSource,
        name: SplitName,
        stream: np.ndarray,
        *,
        row_length: int,
        borders: SpecialIds | None,
        byte_counter: CountsBytes,
    ) -> None:
        super().__init__(source, name)
        self._borders, self._byte_counter = borders, byte_counter
        self._step = row_length - 1
        num_rows = (len(stream) - 1) // self._step
        self._rows = as_strided(
            stream,
            shape=(num_rows, row_length),
            strides=(self._step * stream.itemsize, stream.itemsize),
            writeable=False,
        )

    def __len__(self) -> int:
        return len(self._rows)

    def batch(self, rows: np.ndarray) -> Batch:
        tokens = self._rows[rows]
        starts = rows * self._step + 1
        segments, positions = (
            document_positions(self._borders.beginnings(tokens)) if self._borders is not None else (None, None)
        )
        return Batch(
            rows=as_tensor(rows),
            tokens=as_tensor(tokens),
            segments=segments,
            positions=positions,
            num_bytes=self._byte_counter.count(tokens[:, 1:], starts, starts + self._step),
        )


class PaddedRows(CachedSplit):
    """One document per row, padded to the longest of its batch; longer ones are cut, each piece beginning with the
    last token of the piece before."""

    def __init__(
        self,
        source: CachedSource,
        name: SplitName,
        documents: Ragged,
        *,
        row_length: int,
        byte_counter: CountsBytes,
    ) -> None:
        super().__init__(source, name)
        self._values, self._byte_counter = documents.values, byte_counter
        self._starts, self._lengths = _pieces(documents, row_length)

    def __len__(self) -> int:
        return len(self._starts)

    def lengths(self) -> np.ndarray:
        return self._lengths

    def batch(self, rows: np.ndarray) -> Batch:
        starts, lengths = self._starts[rows], self._lengths[rows]
        tokens, valid = padded(self._values, starts, lengths)
        return Batch(
            rows=as_tensor(rows),
            tokens=as_tensor(tokens),
            valid=torch.from_numpy(valid),
            num_bytes=self._byte_counter.count(tokens[:, 1:], starts + 1, starts + lengths),
        )


def padded(values: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of a stream, padded on the right, and a mask of the real tokens."""
    columns = np.arange(lengths.max(initial=0))
    valid = columns < lengths[:, None]
    indices = np.minimum(starts[:, None] + columns, len(values) - 1)
    return np.where(valid, values[indices], PAD), valid


def as_tensor(array: np.ndarray) -> Tensor:
    """Return integers as torch indexes with them; always a copy, never a view of a file."""
    return torch.from_numpy(array.astype(np.int64))


def document_positions(first: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return the number of the document that each token belongs to, and its position there, from a mask of the
    documents' first tokens; a row's first document may have begun in the row before, and starts at 0 all the same."""
    columns = np.arange(first.shape[1])
    starts = np.maximum.accumulate(first * columns, axis=1)
    return torch.from_numpy(np.cumsum(first, axis=1)), torch.from_numpy(np.subtract(columns, starts, out=starts))


def _pieces(documents: Ragged, row_length: int) -> tuple[np.ndarray, np.ndarray]:
    step = row_length - 1
    lengths = documents.lengths
    num_pieces = np.maximum(-(-(lengths - 1) // step), 1)
    first = np.cumsum(num_pieces) - num_pieces
    offsets = (np.arange(num_pieces.sum()) - np.repeat(first, num_pieces)) * step
    starts = np.repeat(documents.offsets[:-1], num_pieces) + offsets
    return starts, np.minimum(np.repeat(documents.offsets[1:], num_pieces) - starts, row_length)


class PlacedByteCounter:
    """A counter with a number of bytes for each position of the stream."""

    def __init__(self, token_bytes: np.ndarray) -> None:
        self._token_bytes = token_bytes

    def count(self, tokens: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> Tensor:
        del tokens
        spans = zip(starts.tolist(), stops.tolist(), strict=True)
        return torch.tensor(sum(int(self._token_bytes[start:stop].sum(dtype=np.int64)) for start, stop in spans))


def byte_counter(tokenizer: Tokenizer, table: Table) -> CountsBytes:
    """Return the counter for the columns that `framed_with_bytes` made, or for the tokens of an exact tokenizer."""
    if "token_bytes" in table:
        return PlacedByteCounter(ragged(table, "token_bytes").values)
    return ByteCounter(tokenizer.byte_lengths, ragged(table, "tokens").values, ragged(table, "unknown_bytes").values)


def framed_with_bytes(tokenizer: Tokenizer, texts: Sequence[str]) -> Table:
    """Return each text between a start and an end token, and how many bytes each token stands for: the start for none,
    the end for the rest of the text after its last token."""
    tokens, sizes = tokenizer.encode_with_bytes(texts)
    largest = int(sizes.values.max(initial=0))
    values = np.insert(sizes.values, sizes.offsets[:-1], 0).astype(smallest_integer(largest))
    return {"tokens": tokenizer.framed(tokens), "token_bytes": Ragged.of_lengths(values, sizes.lengths + 1)}
