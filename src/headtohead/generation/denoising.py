"""Texts are written in any order by a model that restores hidden tokens: all are hidden at first, and a few are fixed
at each step, those of which the model is surest (Chang et al. 2022, https://arxiv.org/abs/2202.04200; Nie et al. 2025,
https://arxiv.org/abs/2502.09992)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.ranges import Count, Temperature


@torch.no_grad()
def denoise(
    model: Architecture,
    tokens: Int[Tensor, "B L"],
    hidden: Bool[Tensor, "B L"],
    *,
    mask_id: int,
    steps: Count,
    valid: Bool[Tensor, "B L"] | None = None,
    temperature: Temperature = 0.0,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "B L"]:
    """Return the tokens with the hidden ones written in so many steps, of about equally many tokens each.

    At temperature 0 a token is the most likely; else it is drawn, and its own probability says how sure the model is.
    """
    written, hidden = tokens.masked_fill(hidden, mask_id), hidden.clone()
    totals = hidden.sum(1)
    for step in range(1, steps + 1):
        probabilities = _probabilities(model(tokens=written, valid=valid), mask_id, temperature)
        if temperature > 0:
            flat = probabilities.flatten(0, 1)
            chosen = torch.multinomial(flat, 1, generator=generator).view(written.shape)
        else:
            chosen = probabilities.argmax(-1)
        sureness = probabilities.gather(-1, chosen[..., None]).squeeze(-1).masked_fill(~hidden, -1.0)
        due = totals * step // steps - (totals - hidden.sum(1))
        rank = sureness.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
        now = hidden & (rank < due[:, None])
        written, hidden = torch.where(now, chosen, written), hidden & ~now
    return written


def _probabilities(logits: Float[Tensor, "B L V"], mask_id: int, temperature: float) -> Float[Tensor, "B L V"]:
    """Return probabilities of all tokens but the mask."""
    logits = logits.float()
    logits[..., mask_id] = float("-inf")
    return (logits / temperature if temperature > 0 else logits).softmax(-1)
