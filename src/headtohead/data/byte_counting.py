"""Bytes of text that tokens stand for, where the tokens themselves do not tell: a tokenizer that makes letters small or
leaves blanks out is judged by the text as it was."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from headtohead.data.rows import ByteCounter, CountsBytes
from headtohead.data.storage import Ragged, Table, ragged, smallest_integer
from headtohead.data.tokenizers import Tokenizer


class PlacedByteCounter:
    """A number of bytes for each place of the stream."""

    def __init__(self, token_bytes: np.ndarray) -> None:
        self._token_bytes = token_bytes

    def count(self, tokens: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> Tensor:
        del tokens
        spans = zip(starts.tolist(), stops.tolist(), strict=True)
        return torch.tensor(sum(int(self._token_bytes[start:stop].sum(dtype=np.int64)) for start, stop in spans))


def byte_counter(tokenizer: Tokenizer, table: Table) -> CountsBytes:
    """For the columns that `framed_with_bytes` made, or the tokens of an exact tokenizer."""
    if "token_bytes" in table:
        return PlacedByteCounter(ragged(table, "token_bytes").values)
    return ByteCounter(tokenizer.byte_lengths, ragged(table, "tokens").values, ragged(table, "unknown_bytes").values)


def framed_with_bytes(tokenizer: Tokenizer, texts: Sequence[str]) -> Table:
    """Each text between a start and an end token, and how many bytes each token stands for: the start for none, the end
    for what is left of the text after its last token."""
    tokens, sizes = tokenizer.encode_with_bytes(texts)
    largest = int(sizes.values.max(initial=0))
    values = np.insert(sizes.values, sizes.offsets[:-1], 0).astype(smallest_integer(largest))
    return {"tokens": tokenizer.framed(tokens), "token_bytes": Ragged.of_lengths(values, sizes.lengths + 1)}
