"""Soft caps hold scores and logits within bounds and leave small ones nearly as they are (Gemma 2, Riviere et al. 2024,
https://arxiv.org/abs/2408.00118, section 2)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.precision import at_least_float32


def soft_capped(x: Float[Tensor, "..."], cap: float | None) -> Float[Tensor, "..."]:
    """Return cap tanh(x / cap), computed in float32 at least; x itself where there is no cap."""
    if cap is None:
        return x
    return (cap * torch.tanh(x.to(at_least_float32(x.dtype)) / cap)).to(x.dtype)
