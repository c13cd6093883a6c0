"""Long documents read through windows that overlap, so that every token is predicted once, with much before it in
sight (Press et al. 2021, sliding-window evaluation, https://arxiv.org/abs/2012.15832)."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int

from headtohead.data.batch import IGNORED, Batch
from headtohead.data.contracts import DataError, Split
from headtohead.data.rows import CountsBytes, as_tensor, padded
from headtohead.data.storage import Ragged


class StridedRows(Split):
    """Windows of `length` tokens, each starting `stride` tokens after the one before in the same document. A window
    scores only what those before it did not: its last `stride` targets, each with at least `length - stride` tokens in
    sight; a document's first window scores all of its own."""

    def __init__(self, documents: Ragged, *, length: int, stride: int, byte_counter: CountsBytes) -> None:
        if length < 1:
            raise DataError(f"windows of {length} tokens hold nothing: choose a length of at least 1.")
        if not 1 <= stride <= length:
            raise DataError(
                f"windows of {length} tokens that start {stride} tokens apart would leave tokens out: choose a stride "
                f"from 1 to {length}."
            )
        self._values, self._byte_counter = documents.values, byte_counter
        self._starts, self._lengths, self._scored = _windows(documents, length, stride)

    def __len__(self) -> int:
        return len(self._starts)

    def lengths(self) -> np.ndarray:
        return self._lengths

    def batch(self, rows: np.ndarray) -> Batch:
        """Each row brings its own targets, IGNORED where another window scores them."""
        starts, lengths, scored = self._starts[rows], self._lengths[rows], self._scored[rows]
        tokens, valid = padded(self._values, starts, lengths + 1)
        first, stops = (lengths - scored)[:, None], starts + lengths + 1
        counted = valid[:, 1:] & (np.arange(tokens.shape[1] - 1) >= first)
        new, _ = padded(self._values, stops - scored, scored)
        return Batch(
            rows=as_tensor(rows),
            tokens=as_tensor(tokens[:, :-1]),
            targets=as_tensor(np.where(counted, tokens[:, 1:].astype(np.int64), IGNORED)),
            valid=None if valid.all() else torch.from_numpy(valid[:, 1:].copy()),
            num_bytes=self._byte_counter.count(new, stops - scored, stops),
        )


def _windows(
    documents: Ragged, length: int, stride: int
) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"], Int[np.ndarray, " N"]]:
    """Where each window starts in the stream, how many tokens it reads, and how many targets are its own to score."""
    num_targets = np.maximum(documents.lengths - 1, 0)
    num_windows = np.where(num_targets > 0, 1 + -(-np.maximum(num_targets - length, 0) // stride), 0)
    number = np.arange(num_windows.sum()) - np.repeat(np.cumsum(num_windows) - num_windows, num_windows)
    ends = np.minimum(number * stride + length, np.repeat(num_targets, num_windows))
    scored_before = np.where(number > 0, (number - 1) * stride + length, 0)
    starts = np.repeat(documents.offsets[:-1], num_windows) + number * stride
    return starts, ends - number * stride, ends - scored_before
