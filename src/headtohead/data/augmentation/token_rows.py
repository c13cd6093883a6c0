"""Rows of tokens as augmentations see them: what of them may change, and how they close up when some leave."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool

from headtohead.data.augmentation.contracts import Augmentation
from headtohead.data.batch import IGNORED, Batch
from headtohead.data.contracts import DataError, DataSource, DataSpec
from headtohead.data.rows import as_tensor
from headtohead.data.tokenizers import PAD, Tokenizer


class OfTokens(Augmentation):
    """Changes tokens of texts, of pairs those of the source; special tokens and padding never."""

    def bind(self, source: DataSource) -> None:
        facts = source.tokenizer_facts()
        if facts is None:
            raise DataError(
                f"augmentation by {type(self).__name__} changes texts, and every token of this data decides its "
                "answer: leave it out (augmentation=none), or choose data of texts"
            )
        self.spec: DataSpec = source.spec()
        self.tokenizer = Tokenizer.from_dict(facts)

    def changeable(self, batch: Batch) -> Bool[np.ndarray, "B L"]:
        """Real tokens of text."""
        assert batch.tokens is not None
        ordinary: np.ndarray = ~self.spec.are_special(batch.tokens).numpy()
        return ordinary if batch.valid is None else ordinary & batch.valid.numpy()


def reading(batch: Batch, tokens: torch.Tensor) -> Batch:
    """The batch with other tokens to read; where tokens are what is predicted, those that stood there stay so."""
    known = batch.tokens if batch.original_tokens is None else batch.original_tokens
    return replace(batch, tokens=tokens, original_tokens=known)


def texts_of(batch: Batch) -> Iterator[Bool[np.ndarray, "B L"]]:
    """Where each of a row's texts is: one, or the two of a pair."""
    assert batch.tokens is not None
    if batch.token_types is None:
        yield np.ones(tuple(batch.tokens.shape), dtype=bool)
        return
    second = batch.token_types.numpy() == 1
    yield from (~second, second)


def without(batch: Batch, dropped: Bool[np.ndarray, "B L"]) -> Batch:
    """Rows closed up, with the tags of tokens that stay; the places of packed documents close up too."""
    assert batch.tokens is not None
    valid = np.ones_like(dropped) if batch.valid is None else batch.valid.numpy()
    kept = valid & ~dropped
    lengths = kept.sum(1)
    order = np.argsort(~kept, axis=1, kind="stable")[:, : lengths.max(initial=0)]
    real = np.arange(order.shape[1]) < lengths[:, None]

    def closed(tensor: torch.Tensor, filler: int) -> torch.Tensor:
        return as_tensor(np.where(real, np.take_along_axis(tensor.numpy(), order, axis=1), filler))

    original, segments, positions = batch.original_tokens, batch.segments, batch.positions
    if positions is not None:
        assert segments is not None, "places of a row's documents come with their numbers"
        positions = positions - as_tensor(_dropped_before(dropped, segments.numpy()))
    # Targets of pairs are texts of their own, though they may be as long.
    by_token = batch.decoder_tokens is None and batch.targets is not None and batch.targets.shape == batch.tokens.shape
    return replace(
        batch,
        tokens=closed(batch.tokens, PAD),
        valid=torch.from_numpy(real),
        original_tokens=None if original is None else closed(original, PAD),
        segments=None if segments is None else closed(segments, 0),
        positions=None if positions is None else closed(positions, 0),
        num_bytes=None,
        token_types=None if batch.token_types is None else closed(batch.token_types, 0),
        targets=closed(batch.targets, IGNORED) if by_token and batch.targets is not None else batch.targets,
    )


def _dropped_before(dropped: Bool[np.ndarray, "B L"], segments: np.ndarray) -> np.ndarray:
    """How many tokens of its own document are left out before each token."""
    before = dropped.cumsum(1) - dropped
    begins = np.ones_like(dropped)
    begins[:, 1:] = segments[:, 1:] != segments[:, :-1]
    first = np.maximum.accumulate(np.where(begins, np.arange(dropped.shape[1]), 0), axis=1)
    left_out: np.ndarray = before - np.take_along_axis(before, first, axis=1)
    return left_out
