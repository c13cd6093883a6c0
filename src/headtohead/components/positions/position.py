"""A position encoding tells a stack in which order its tokens stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headtohead.components.component import Component, CostQuery


class Position(Component):
    """A position encoding: three hooks, each of which does nothing by default."""

    adds_to_tokens: ClassVar[bool] = False
    rotates: ClassVar[bool] = False
    biases_scores: ClassVar[bool] = False
    bias_reads_queries: ClassVar[bool] = False
    """Whether the bias must be computed in every layer from its queries (Shaw)."""
    shared_by_layers: ClassVar[bool] = True
    """Whether all layers share one table; otherwise every layer owns its own."""
    needs_grid: ClassVar[bool] = False
    """Whether the tokens must be the patches of an image."""
    width_multiple: ClassVar[int] = 1
    """The number that the model's width must be a multiple of."""
    rotated_multiple: ClassVar[int] = 1
    """The number that the rotated part of a head's width must be a multiple of."""

    max_length: int | None = None
    """The longest sequence that has positions; None means any."""

    @property
    def bias_learns(self) -> bool:
        """Return whether the bias has a gradient, by its own parameters or by the queries."""
        learns = self.bias_reads_queries or any(parameter.requires_grad for parameter in self.parameters())
        return self.biases_scores and learns

    def bytes_of_bias(self, query: CostQuery, num_queries: int, num_pairs: int) -> int:
        """Return what autograd saves to compute the bias for so many queries and pairs, without the bias itself."""
        del query, num_queries, num_pairs
        return 0

    def in_windows(self) -> Position | None:
        """Return the encoding of the layers whose mixer sees a window; None where it is this one, as by default."""
        return None

    def add(self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "#B L"]) -> Float[Tensor, "B L D"]:
        del positions
        return x

    def rotation(self, positions: Int[Tensor, "#B L"], dtype: torch.dtype) -> Float[Tensor, "2 #B 1 L R"] | None:
        """Return what `rotate` needs for tokens at these positions, made once for all layers."""
        del positions, dtype
        return None

    def rotate(
        self,
        x: Float[Tensor, "B H L K"],
        rotation: Float[Tensor, "2 #B 1 L R"],
    ) -> Float[Tensor, "B H L K"]:
        """Rotate queries or keys."""
        del rotation
        return x

    def bias(
        self,
        queries: Float[Tensor, "B H L K"] | None,
        query_positions: Int[Tensor, "#B L"],
        key_positions: Int[Tensor, "#B M"],
    ) -> Float[Tensor, "#B H L M"] | None:
        del queries, query_positions, key_positions
        return None


PositionFactory = Callable[..., Position]
"""position(d_model, num_heads=H, max_length=N, causal=bool, grid=(rows, columns) or None)"""
