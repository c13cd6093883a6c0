"""These encodings give the patches of an image the positions of their rows and columns."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.components.component import Grid, Position
from headtohead.components.costs import CostContext, Costs
from headtohead.components.positions.absolute import waves
from headtohead.components.positions.rotary import plain_frequencies, rotary_angles, rotated_width, turn
from headtohead.errors import UsageError
from headtohead.ranges import Positive, Share


class PatchGrid:
    """Places of a sequence made of `leading` other tokens ([CLS]) and then the patches, row by row."""

    def __init__(self, name: str, grid: Grid | None, max_length: int | None) -> None:
        if grid is None:
            raise UsageError(
                f"position={name} places the patches of an image, and here are none: "
                "use model=vision_transformer, or position=sinusoidal or rotary for sequences"
            )
        self.rows, self.columns = grid
        num_patches = self.rows * self.columns
        self.max_length = num_patches if max_length is None else max_length
        self.leading = self.max_length - num_patches
        if self.leading < 0:
            raise UsageError(f"position={name}: {num_patches} patches do not fit max_length={max_length}: raise it")

    def rows_and_columns(
        self, positions: Int[Tensor, "#B L"]
    ) -> tuple[Int[Tensor, "#B L"], Int[Tensor, "#B L"], Bool[Tensor, "#B L"]]:
        """Return row, column, and whether there is a patch at all."""
        index = (positions - self.leading).clamp(min=0)
        return index // self.columns, index % self.columns, positions >= self.leading


# Sines and cosines of a patch's row and column, half of the channels each (Chen et al. 2021,
# https://arxiv.org/abs/2104.02057).


class Sinusoidal2d(Position):
    """Rows in the first half of the channels, columns in the second; nothing is added to a [CLS] token."""

    no_mup_rule = ""
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
        rows, columns, is_patch = self.patches.rows_and_columns(positions)
        both = torch.cat(
            [waves(position, self.d_model // 2, self.base, x.dtype) for position in (rows, columns)], dim=-1
        )
        return x + both * is_patch[..., None]

    def costs(self, query: CostContext) -> Costs:
        del query
        return Costs()


# Rotary positions for images: one half of each head turns by the patch's row, the other by its column (Heo et al.
# 2024, https://arxiv.org/abs/2403.13298, the axial form).


class Rotary2d(Position):
    """Pairs are (i, i + R/2); a [CLS] token does not turn."""

    no_mup_rule = ""
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
        rows, columns, is_patch = self.patches.rows_and_columns(positions)
        frequencies = plain_frequencies(self.rotated // 4, self.base, positions.device, dtype)
        angles = torch.cat([rotary_angles(position, frequencies, dtype) for position in (rows, columns)], dim=-1)
        angles = (angles * is_patch[..., None]).repeat(1, 1, 2)
        return torch.stack((angles.cos(), angles.sin()))[:, :, None].to(dtype)

    def rotate(
        self,
        x: Float[Tensor, "B H L K"],
        rotation: Float[Tensor, "2 #B 1 L R"],
    ) -> Float[Tensor, "B H L K"]:
        return turn(x, rotation.to(x.dtype), interleaved=False)

    def costs(self, query: CostContext) -> Costs:
        """Return the costs; autograd saves cosines and sines, once for all layers."""
        return Costs(activation_bytes=2 * query.length * self.rotated * query.bytes_per_element)
