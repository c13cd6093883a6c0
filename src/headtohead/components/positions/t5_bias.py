"""A learned bias on the scores for every bucket of distances, shared by all layers (Raffel et al. 2020,
https://arxiv.org/abs/1910.10683)."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.components.contracts import CostQuery, Costs, Grid, Position
from headtohead.errors import UsageError
from headtohead.ranges import Length, Width


class T5Bias(Position):
    """Small distances have a bucket each, larger ones share logarithmically wider ones up to `max_distance`."""

    biases_scores = True

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        max_length: int | None,
        causal: bool,
        grid: Grid | None = None,
        num_buckets: Width = 32,
        max_distance: Length = 128,
    ) -> None:
        super().__init__()
        del max_length, grid
        exact = num_buckets // 2 if causal else num_buckets // 4
        if exact < 1 or num_buckets % 2 or max_distance <= exact:
            raise UsageError(
                f"position=t5_bias cannot sort distances up to max_distance={max_distance} into "
                f"num_buckets={num_buckets}: choose an even number of at least 4, and max_distance > {max(1, exact)}"
            )
        self.d_model, self.num_heads, self.causal = d_model, num_heads, causal
        self.num_buckets, self.max_distance = num_buckets, max_distance
        self.table = nn.Parameter(torch.empty(num_buckets, num_heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table, std=self.d_model**-0.5)

    def bias(
        self,
        queries: Float[Tensor, "B H L K"] | None,
        query_positions: Int[Tensor, "#B L"],
        key_positions: Int[Tensor, "#B M"],
    ) -> Float[Tensor, "#B H L M"]:
        del queries
        ahead = key_positions[:, None, :] - query_positions[:, :, None]
        return F.embedding(self.buckets(ahead), self.table).permute(0, 3, 1, 2)

    def buckets(self, ahead: Int[Tensor, "#B L M"]) -> Int[Tensor, "#B L M"]:
        """The bucket of a key that lies `ahead` tokens after its query."""
        count = self.num_buckets if self.causal else self.num_buckets // 2
        start = 0 if self.causal else (ahead > 0).long() * count
        distance = (-ahead).clamp(min=0) if self.causal else ahead.abs()
        exact = count // 2
        growth = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.max_distance / exact)
        coarse = (exact + (growth * (count - exact)).long()).clamp(max=count - 1)
        return start + torch.where(distance < exact, distance, coarse)

    def costs(self, query: CostQuery) -> Costs:
        """Autograd keeps the bias and its buckets, once for all layers."""
        pairs = query.length**2
        kept = pairs * query.bytes_per_biased_pair + self.bytes_of_bias(query, query.length, pairs)
        return Costs.of(self, activation_bytes=kept)

    def bytes_of_bias(self, query: CostQuery, num_queries: int, num_pairs: int) -> int:
        """Return the bytes of the buckets."""
        del query, num_queries
        return 8 * num_pairs if self.table.requires_grad else 0
