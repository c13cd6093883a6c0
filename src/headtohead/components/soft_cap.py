"""Soft caps hold scores and logits within bounds and leave small ones nearly as they are (Gemma 2, Riviere et al. 2024,
https://arxiv.org/abs/2408.00118, section 2)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.precision import at_least_float32


@dataclass(frozen=True)
class LogitRange:
    """The range of logits: a factor, and a bound that they come near without reaching it; None: no bound."""

    factor: float = 1.0
    cap: float | None = None


def soft_capped(x: Float[Tensor, "..."], cap: float | None) -> Float[Tensor, "..."]:
    """Return cap tanh(x / cap), computed in float32 at least; x itself where there is no cap."""
    if cap is None:
        return x
    return (cap * torch.tanh(x.to(at_least_float32(x.dtype)) / cap)).to(x.dtype)
