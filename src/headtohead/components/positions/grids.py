"""Where the patches of an image lie: rows and columns, and the tokens before them that lie nowhere."""

from __future__ import annotations

from jaxtyping import Bool, Int
from torch import Tensor

from headtohead.components.contracts import Grid
from headtohead.errors import UsageError


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

    def places(
        self, positions: Int[Tensor, "#B L"]
    ) -> tuple[Int[Tensor, "#B L"], Int[Tensor, "#B L"], Bool[Tensor, "#B L"]]:
        """Row, column, and whether there is a patch at all."""
        index = (positions - self.leading).clamp(min=0)
        return index // self.columns, index % self.columns, positions >= self.leading
