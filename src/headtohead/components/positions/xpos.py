"""Rotary positions whose scores decay with the distance, each pair of channels at its own rate (Sun et al. 2022,
https://arxiv.org/abs/2212.10554)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headtohead.components.component import Grid
from headtohead.components.costs import CostContext, Costs
from headtohead.components.positions.rotary import Rotary, RotatedPairs, turn
from headtohead.components.precision import at_least_float32
from headtohead.ranges import Positive

_LARGEST = 1e30
"""The factor of a key, and the inverse of a query's, up to which their products are numbers of float32."""


class Xpos(Rotary):
    """Queries at position n turn and shrink by z^(n / S), keys grow by its inverse: a pair of channels with z loses
    z^(d / S) of its share in the score over a distance d, where z = (2i/R + g) / (1 + g) for pair i of R/2.

    Keys ahead of their query count more instead of less: the paper's models are causal.
    """

    rotates_keys_alike = False

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        max_length: int | None,
        causal: bool,
        grid: Grid | None = None,
        pairs: RotatedPairs = RotatedPairs(),
        decay_length: Positive = 512.0,
        smoothing: Positive = 0.4,
    ) -> None:
        super().__init__(d_model, num_heads=num_heads, max_length=max_length, causal=causal, grid=grid, pairs=pairs)
        self.decay_length, self.smoothing = decay_length, smoothing
        fastest = math.log1p(1.0 / smoothing) / decay_length
        self.max_length = int(math.log(_LARGEST) / fastest)

    def rotation(self, positions: Int[Tensor, "#B L"], dtype: torch.dtype) -> Float[Tensor, "2 #B 1 L R"]:
        """Return cosines and sines of queries, and beside them those of keys."""
        exact = at_least_float32(dtype)
        waves, rate = super().rotation(positions, exact), self.decay_rates(positions.device, exact)
        rate = torch.cat((rate, rate)) if self.pairing == "half" else rate.repeat_interleave(2)
        scale = (-rate * positions[:, None, :, None]).exp()
        return torch.cat((waves * scale, waves / scale), dim=-1).to(dtype)

    def decay_rates(self, device: torch.device, dtype: torch.dtype) -> Float[Tensor, " P"]:
        """Return -log(z) / S of each pair."""
        pair = torch.arange(0, self.rotated, 2, device=device, dtype=dtype)
        return -((pair / self.rotated + self.smoothing) / (1.0 + self.smoothing)).log() / self.decay_length

    def rotate(self, x: Float[Tensor, "B H L K"], rotation: Float[Tensor, "2 #B 1 L R"]) -> Float[Tensor, "B H L K"]:
        of_queries, _ = rotation.to(x.dtype).chunk(2, dim=-1)
        return turn(x, of_queries, interleaved=self.pairing == "interleaved")

    def rotate_keys(
        self, x: Float[Tensor, "B H L K"], rotation: Float[Tensor, "2 #B 1 L R"]
    ) -> Float[Tensor, "B H L K"]:
        _, of_keys = rotation.to(x.dtype).chunk(2, dim=-1)
        return turn(x, of_keys, interleaved=self.pairing == "interleaved")

    def costs(self, query: CostContext) -> Costs:
        return Costs.of(self, activation_bytes=4 * query.length * self.rotated * query.bytes_per_element)
