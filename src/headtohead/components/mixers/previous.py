"""Every token's predecessor, for mixers and feed-forwards that look one token back (token shift, Peng et al. 2023,
https://arxiv.org/abs/2305.13048)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def previous(
    x: Float[Tensor, "B L D"], begins: Bool[Tensor, "B L"] | None = None, latest: Float[Tensor, "B D"] | None = None
) -> Float[Tensor, "B L D"]:
    """x_{t-1}; before the first token stands `latest`, or zero, and zero before a document's first."""
    first = torch.zeros_like(x[:, :1]) if latest is None else latest[:, None].to(x.dtype)
    before = torch.cat((first, x[:, :-1]), dim=1)
    return before if begins is None else before.masked_fill(begins[..., None], 0.0)


def shifted(
    x: Float[Tensor, "B L D"], before: Float[Tensor, "B L D"], mix: Float[Tensor, "1 1 D"]
) -> Float[Tensor, "B L D"]:
    """mix x_t + (1 - mix) x_{t-1}, channel by channel."""
    return torch.lerp(before, x, mix.to(x.dtype))
