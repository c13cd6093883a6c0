"""Relative keys: each query meets a learned vector for its distance to the key (Shaw et al. 2018,
https://arxiv.org/abs/1803.02155). The paper's relative values, which it found to add nothing, are left out."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headtohead.components.contracts import CostQuery, Costs, Grid, Position
from headtohead.errors import UsageError
from headtohead.ranges import Length


class Shaw(Position):
    """q . a[clip(key place - query place)], one table a in each layer, shared by its heads."""

    biases_scores = True
    bias_reads_queries = True
    shared_by_layers = False

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        max_length: int | None,
        causal: bool,
        grid: Grid | None = None,
        max_distance: Length = 16,
    ) -> None:
        super().__init__()
        del max_length, grid
        if max_distance < 1:
            raise UsageError(f"position=shaw with max_distance={max_distance} knows no distances: choose 1 or more")
        self.num_heads, self.head_width, self.causal = num_heads, d_model // num_heads, causal
        self.max_distance = max_distance
        self.table = nn.Parameter(torch.empty(max_distance + 1 if causal else 2 * max_distance + 1, self.head_width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table, std=self.head_width**-0.5)

    def bias(
        self,
        queries: Float[Tensor, "B H L K"] | None,
        query_positions: Int[Tensor, "#B L"],
        key_positions: Int[Tensor, "#B M"],
    ) -> Float[Tensor, "B H L M"]:
        assert queries is not None, "bias_reads_queries promises that they are given"
        ahead = key_positions[:, None, None, :] - query_positions[:, None, :, None]
        furthest = 0 if self.causal else self.max_distance
        index = ahead.clamp(-self.max_distance, furthest) + self.max_distance
        by_distance = queries @ self.table.to(queries.dtype).T
        return by_distance.gather(-1, index.expand(*queries.shape[:2], -1, -1))

    def costs(self, query: CostQuery) -> Costs:
        """Autograd keeps the bias, and what making it keeps."""
        n = query.length
        return Costs.of(
            self,
            forward_flops=2 * n * self.num_heads * self.table.numel(),
            activation_bytes=n * n * query.bytes_per_biased_pair + self.bytes_of_bias(query, n, n * n),
        )

    def bytes_of_bias(self, query: CostQuery, num_queries: int, num_pairs: int) -> int:
        """Return the bytes of the distances, of what queries say to every distance, and of the queries."""
        per_head = len(self.table) + (self.head_width if self.table.requires_grad else 0)
        return 8 * num_pairs + num_queries * self.num_heads * per_head * query.bytes_per_element
