"""Patch merging halves a grid of tokens (Liu et al. 2021, https://arxiv.org/abs/2103.14030)."""

from __future__ import annotations

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.block_parts import NormFactory
from headtohead.components.component import Component, Context, Grid
from headtohead.components.costs import CostQuery, Costs
from headtohead.components.linear_maps import linear_costs
from headtohead.errors import UsageError


class PatchMerging(Component):
    """reduction(norm(squares)): the four tokens of each square of 2 x 2 become one, twice as wide."""

    def __init__(self, d_model: int, grid: Grid, *, norm: NormFactory) -> None:
        super().__init__()
        rows, columns = grid
        if rows % 2 or columns % 2:
            raise UsageError(
                f"model.num_stages halves the grid of patches between stages, and one of {rows} x {columns} cannot be "
                "halved: choose fewer stages, another model.patch_size, or images of another size"
            )
        self.d_model, self.grid_before = d_model, grid
        self.norm = norm(4 * d_model)
        self.reduction = nn.Linear(4 * d_model, 2 * d_model, bias=False)

    @property
    def grid(self) -> Grid:
        """Return rows and columns of what is left."""
        rows, columns = self.grid_before
        return rows // 2, columns // 2

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B M E"]:
        del context
        squares = x.unflatten(1, self.grid_before).unflatten(2, (-1, 2)).unflatten(1, (-1, 2))
        tokens = squares.permute(0, 1, 3, 4, 2, 5).flatten(3, 5).flatten(1, 2)  # column by column within a square
        y: Tensor = self.reduction(self.norm(tokens, Context()))
        return y

    def costs(self, query: CostQuery) -> Costs:
        merged = replace(query, length=self.grid[0] * self.grid[1])
        normed = replace(self.norm.costs(merged), state_elements=0)
        return normed + linear_costs(4 * self.d_model, 2 * self.d_model, self.reduction.weight.numel(), merged)
