"""Rows of tokens for the comparisons, by both sides' names: one full row, one padded on the right."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

VOCABULARY = 37
LENGTH = 11


def token_rows(length: int = LENGTH, vocabulary: int = VOCABULARY) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
    """Return the inputs of the reference and ours."""
    tokens = torch.randint(5, vocabulary, (2, length), generator=torch.Generator().manual_seed(3))
    valid = torch.ones(2, length, dtype=torch.bool)
    valid[1, length - 3 :] = False
    return {"input_ids": tokens, "attention_mask": valid.long()}, {"tokens": tokens, "valid": valid}


def pair_rows(length: int = LENGTH) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
    """The same rows as pairs of sentences; the second begins at the fifth token."""
    theirs, ours = token_rows(length)
    second = (torch.arange(length) >= 4).long().expand(2, length)
    return {**theirs, "token_type_ids": second}, {**ours, "token_types": second}
