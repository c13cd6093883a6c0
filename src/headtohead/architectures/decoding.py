"""Free-running greedy decoding, as far as exact match needs it: the likeliest token after those written so far."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor


@torch.no_grad()
def write_greedily(
    next_logits: Callable[[Int[Tensor, "B 1"]], Float[Tensor, "B V"]],
    first: Float[Tensor, "B V"],
    *,
    max_length: int,
    eos_id: int | None,
) -> Int[Tensor, "B T"]:
    """Up to `max_length` tokens per row, `first` being the logits of the first; after `eos_id` a row repeats it."""
    token = first.argmax(-1, keepdim=True)
    written = [token]
    finished = token == eos_id if eos_id is not None else torch.zeros_like(token, dtype=torch.bool)
    while len(written) < max_length and not bool(finished.all()):
        token = next_logits(token).argmax(-1, keepdim=True)
        if eos_id is not None:
            token = token.masked_fill(finished, eos_id)
            finished = finished | (token == eos_id)
        written.append(token)
    tokens = torch.cat(written, dim=1)
    missing = max_length - tokens.shape[1]
    return torch.cat([tokens, tokens[:, -1:].expand(-1, missing)], dim=1) if missing else tokens
