"""The weights that a diagonal recurrence gives to the inputs of all tokens before, for probes."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def decayed(log_decay: Float[Tensor, "B L E"], begins: Bool[Tensor, "B L"] | None = None) -> Float[Tensor, "B E L L"]:
    """What is left at token t of what token s <= t brought: exp of the log decays after s up to t, and 0 beyond a
    document's bounds. Sums in float64, since they grow with the length."""
    total = log_decay.double().cumsum(1).transpose(1, 2)
    seen = open_pairs(log_decay, begins)
    return (total[..., :, None] - total[..., None, :]).masked_fill(~seen, float("-inf")).exp().to(log_decay.dtype)


def open_pairs(like: Float[Tensor, "B L E"], begins: Bool[Tensor, "B L"] | None) -> Bool[Tensor, "B 1 L L"]:
    """Who is before whom, or itself, in the same document."""
    length = like.shape[1]
    seen = torch.ones(length, length, dtype=torch.bool, device=like.device).tril().expand(len(like), 1, -1, -1)
    if begins is None:
        return seen
    number = begins.long().cumsum(1)
    return seen & (number[:, :, None] == number[:, None, :])[:, None]


def applied(weights: Float[Tensor, "B E L M"], values: Float[Tensor, "B M E"]) -> Float[Tensor, "B L E"]:
    """Every channel's weights on its own values."""
    return torch.einsum("belm,bme->ble", weights.to(values.dtype), values)
