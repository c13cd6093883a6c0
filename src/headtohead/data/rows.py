"""Rows of tokens cut from documents that lie end to end: packed ones of one length, and padded ones."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
import torch
from numpy.lib.stride_tricks import as_strided
from torch import Tensor

from headtohead.data.batch import Batch
from headtohead.data.contracts import SplitName
from headtohead.data.source import CachedSource, CachedSplit
from headtohead.data.storage import Ragged, smallest_integer
from headtohead.data.tokenizers import PAD, UNK, SpecialIds


@runtime_checkable
class CountsBytes(Protocol):
    """What rows ask for how many bytes of text their tokens stand for."""

    def count(self, tokens: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> Tensor:
        """Bytes of `tokens`, which are the stream from `starts` to `stops`; padding stands for none."""


class ByteCounter:
    """UTF-8 bytes that tokens stand for; those of unknown characters, which differ, are kept one by one."""

    def __init__(self, byte_lengths: np.ndarray, stream: np.ndarray, unknown_bytes: np.ndarray) -> None:
        # A narrow table stays in the processor's cache.
        self._byte_lengths = byte_lengths.astype(smallest_integer(int(byte_lengths.max())))
        self._places = np.flatnonzero(stream == UNK) if len(unknown_bytes) else np.zeros(0, dtype=np.int64)
        self._sums = np.concatenate([[0], np.cumsum(unknown_bytes, dtype=np.int64)])

    def count(self, tokens: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> Tensor:
        """Bytes of `tokens`, which are the stream from `starts` to `stops`; padding stands for none."""
        total = int(self._byte_lengths.take(tokens).sum())
        if len(self._places):
            first, last = np.searchsorted(self._places, starts), np.searchsorted(self._places, stops)
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
            document_places(self._borders.beginnings(tokens)) if self._borders is not None else (None, None)
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
    """Rows of a stream side by side, padded on the right, and where they are real."""
    columns = np.arange(lengths.max(initial=0))
    valid = columns < lengths[:, None]
    places = np.minimum(starts[:, None] + columns, len(values) - 1)
    return np.where(valid, values[places], PAD), valid


def as_tensor(array: np.ndarray) -> Tensor:
    """Whole numbers as torch indexes with them; always a copy, never a view of a file."""
    return torch.from_numpy(array.astype(np.int64))


def document_places(first: np.ndarray) -> tuple[Tensor, Tensor]:
    """From the first tokens of documents, the number of the document each token belongs to, and its place there; a
    row's first document may have begun in the row before, and starts at 0 all the same."""
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
