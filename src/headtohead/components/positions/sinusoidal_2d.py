"""Sines and cosines of a patch's row and column, half of the channels each (Chen et al. 2021,
https://arxiv.org/abs/2104.02057)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headtohead.components.contracts import CostQuery, Costs, Grid, Position
from headtohead.components.positions.grids import PatchGrid
from headtohead.components.positions.sinusoidal import waves
from headtohead.errors import UsageError
from headtohead.ranges import Positive


class Sinusoidal2d(Position):
    """Rows in the first half of the channels, columns in the second; nothing is added to a [CLS] token."""

    no_width_rule = ""
    adds_to_tokens = True
    needs_grid = True
    width_multiple = 4

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
        del num_heads, causal
        if d_model % 4:
            raise UsageError(
                f"position=sinusoidal_2d splits channels in four, and d_model={d_model} cannot be: use a multiple of 4"
            )
        self.d_model, self.base = d_model, base
        self.patches = PatchGrid("sinusoidal_2d", grid, max_length)
        self.max_length = self.patches.max_length

    def add(self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "#B L"]) -> Float[Tensor, "B L D"]:
        rows, columns, is_patch = self.patches.places(positions)
        both = torch.cat([waves(place, self.d_model // 2, self.base, x.dtype) for place in (rows, columns)], dim=-1)
        return x + both * is_patch[..., None]

    def costs(self, query: CostQuery) -> Costs:
        del query
        return Costs()
