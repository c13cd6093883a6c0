"""Rows of tokens as a person would read them, for samples."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from headtohead.data.batch import Batch
from headtohead.tasks.contracts import Decode

BETWEEN = " | "
"""Stands between the two texts of a pair."""


def row_text(tokens: Int[Tensor, "B L"], batch: Batch, row: int, decode: Decode) -> str:
    """A row of the batch, or of tokens in its places, without padding."""
    ids = tokens[row]
    kept = torch.ones_like(ids, dtype=torch.bool) if batch.valid is None else batch.valid[row]
    if batch.token_types is None:
        return decode(ids[kept].tolist())
    second = batch.token_types[row] == 1
    return BETWEEN.join(decode(ids[kept & part].tolist()).strip() for part in (~second, second))
