"""Rotary positions for images: one half of each head turns by the patch's row, the other by its column (Heo et al.
2024, https://arxiv.org/abs/2403.13298, the axial form)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headtohead.components.contracts import CostQuery, Costs, Grid, Position
from headtohead.components.positions.grids import PatchGrid
from headtohead.components.positions.rotary import plain_frequencies, rotated_width, turn, turning_angles
from headtohead.ranges import Positive, Share


class Rotary2d(Position):
    """Pairs are (i, i + R/2); a [CLS] token does not turn."""

    no_width_rule = ""
    rotates = True
    needs_grid = True
    rotated_multiple = 4

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        max_length: int | None,
        causal: bool,
        grid: Grid | None = None,
        base: Positive = 100.0,
        fraction: Share = 1.0,
    ) -> None:
        super().__init__()
        del causal
        self.rotated, self.base = rotated_width(d_model // num_heads, fraction, multiple=self.rotated_multiple), base
        self.patches = PatchGrid("rotary_2d", grid, max_length)
        self.max_length = self.patches.max_length

    def rotation(self, positions: Int[Tensor, "#B L"], dtype: torch.dtype) -> Float[Tensor, "2 #B 1 L R"]:
        rows, columns, is_patch = self.patches.places(positions)
        frequencies = plain_frequencies(self.rotated // 4, self.base, positions.device, dtype)
        angles = torch.cat([turning_angles(place, frequencies, dtype) for place in (rows, columns)], dim=-1)
        angles = (angles * is_patch[..., None]).repeat(1, 1, 2)
        return torch.stack((angles.cos(), angles.sin()))[:, :, None].to(dtype)

    def rotate(
        self,
        x: Float[Tensor, "B H L K"],
        rotation: Float[Tensor, "2 #B 1 L R"],
    ) -> Float[Tensor, "B H L K"]:
        return turn(x, rotation.to(x.dtype), interleaved=False)

    def costs(self, query: CostQuery) -> Costs:
        """Autograd keeps cosines and sines, once for all layers."""
        return Costs(activation_bytes=2 * query.length * self.rotated * query.bytes_per_element)
