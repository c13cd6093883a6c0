"""Sines and cosines of the place, added to the tokens (Vaswani et al. 2017, https://arxiv.org/abs/1706.03762)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headtohead.components.contracts import CostQuery, Costs, Grid, Position
from headtohead.errors import UsageError
from headtohead.ranges import Positive


class Sinusoidal(Position):
    """Channels 2i and 2i+1 hold the sine and cosine of place / base^(2i/D)."""

    no_width_rule = ""
    adds_to_tokens = True
    width_multiple = 2

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        max_length: int | None,
        causal: bool,
        grid: Grid | None = None,
        base: Positive = 10000.0,
    ) -> None:
        super().__init__()
        del num_heads, max_length, causal, grid
        if d_model % 2:
            raise UsageError(f"position=sinusoidal pairs channels, and d_model={d_model} is odd: choose an even width")
        self.d_model, self.base = d_model, base

    def add(self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "#B L"]) -> Float[Tensor, "B L D"]:
        return x + waves(positions, self.d_model, self.base, x.dtype)

    def costs(self, query: CostQuery) -> Costs:
        del query
        return Costs()


def waves(places: Int[Tensor, "#B L"], width: int, base: float, dtype: torch.dtype) -> Float[Tensor, "#B L D"]:
    """Sine first, then cosine, for each of width/2 frequencies, computed in float32 at least."""
    exact = torch.promote_types(dtype, torch.float32)
    exponents = torch.arange(0, width, 2, device=places.device, dtype=exact) / width
    angles = places[..., None].to(exact) * base**-exponents
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2).to(dtype)
