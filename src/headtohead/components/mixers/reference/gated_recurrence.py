"""A gated recurrence one token at a time."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def states_one_by_one(
    log_decay: Float[Tensor, "B L E"],
    inputs: Float[Tensor, "B L E"],
    begins: Bool[Tensor, "B L"] | None,
    start: Float[Tensor, "B E"] | None,
) -> Float[Tensor, "B L E"]:
    """h_t = exp(log_decay_t) h_{t-1} + inputs_t, from nothing wherever a document begins."""
    h = torch.zeros_like(inputs[:, 0]) if start is None else start
    states = []
    for t in range(inputs.shape[1]):
        if begins is not None:
            h = h.masked_fill(begins[:, t, None], 0.0)
        h = log_decay[:, t].exp() * h + inputs[:, t]
        states.append(h)
    return torch.stack(states, dim=1)
