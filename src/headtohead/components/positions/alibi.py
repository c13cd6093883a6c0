"""Attention with linear biases: scores fall with distance, each head at its own rate (Press et al. 2022,
https://arxiv.org/abs/2108.12409)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headtohead.components.contracts import CostQuery, Costs, Grid, Position
from headtohead.ranges import Positive


class Alibi(Position):
    """-slope * |query place - key place|; symmetric where the attention is bidirectional."""

    no_width_rule = ""
    biases_scores = True
    slopes: Tensor

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        max_length: int | None,
        causal: bool,
        grid: Grid | None = None,
        halvings: Positive = 8.0,
    ) -> None:
        super().__init__()
        del d_model, max_length, causal, grid
        self.num_heads, self.halvings = num_heads, halvings
        self.register_buffer("slopes", torch.empty(num_heads), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        self.slopes.copy_(torch.tensor(head_slopes(self.num_heads, self.halvings)))

    def bias(
        self,
        queries: Float[Tensor, "B H L K"] | None,
        query_positions: Int[Tensor, "#B L"],
        key_positions: Int[Tensor, "#B M"],
    ) -> Float[Tensor, "#B H L M"]:
        del queries
        distance = (query_positions[:, None, :, None] - key_positions[:, None, None, :]).abs()
        return -self.slopes[:, None, None] * distance

    def costs(self, query: CostQuery) -> Costs:
        """Autograd keeps the bias, once for all layers."""
        return Costs(activation_bytes=query.length**2 * query.bytes_per_biased_pair)


def head_slopes(num_heads: int, halvings: float = 8.0) -> list[float]:
    """2^(-8/H), 2^(-16/H) ... 2^-8 for a power of two and 8 halvings; for another number of heads those of the next
    lower power, then every second one of the next higher, as in the authors' code."""
    lower = 2 ** math.floor(math.log2(num_heads))
    slopes = [2.0 ** (-halvings * (head + 1) / lower) for head in range(lower)]
    finer = [2.0 ** (-halvings * (head + 1) / (2 * lower)) for head in range(2 * lower)]
    return slopes + finer[0::2][: num_heads - lower]
