"""How strongly heads forget before training, where a decay is exp(-strength step) and the token makes the step (Dao and
Gu 2024, https://arxiv.org/abs/2405.21060)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

STRONGEST = 16


def strengths(num_heads: int) -> Float[Tensor, " H"]:
    """1, 2, 3 ... as long as these are few, else evenly from 1 to 16: what the paper draws, but with a first head that
    keeps most in every model, one with a single head included."""
    return torch.linspace(1.0, min(num_heads, STRONGEST), num_heads)
