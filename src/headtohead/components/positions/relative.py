"""These encodings change the scores of attention by the distance between query and key."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.components.component import Grid, Position
from headtohead.components.costs import CostContext, Costs
from headtohead.errors import UsageError
from headtohead.ranges import Length, Positive, Width


class Alibi(Position):
    """-slope * |query position - key position|; symmetric where the attention is bidirectional."""

    no_mup_rule = ""
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

    def costs(self, query: CostContext) -> Costs:
        """Return the costs; autograd saves the bias, once for all layers."""
        return Costs(activation_bytes=query.length**2 * query.bytes_per_biased_pair)


def head_slopes(num_heads: int, halvings: float = 8.0) -> list[float]:
    """Return 2^(-8/H), 2^(-16/H) ... 2^-8 for a power of two and 8 halvings; for another number of heads those of the
    next lower power, then every second one of the next higher, as in the authors' code."""
    lower = 2 ** math.floor(math.log2(num_heads))
    slopes = [2.0 ** (-halvings * (head + 1) / lower) for head in range(lower)]
    finer = [2.0 ** (-halvings * (head + 1) / (2 * lower)) for head in range(2 * lower)]
    return slopes + finer[0::2][: num_heads - lower]


# Relative keys: each query meets a learned vector for its distance to the key (Shaw et al. 2018,
# https://arxiv.org/abs/1803.02155). The paper's relative values, which it found to add nothing, are left out.


class Shaw(Position):
    """q . a[clip(key position - query position)], one table a in each layer, shared by its heads."""

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

    def costs(self, query: CostContext) -> Costs:
        """Return the costs; autograd saves the bias and the inputs of its computation."""
        n = query.length
        return Costs.of(
            self,
            forward_flops=2 * n * self.num_heads * self.table.numel(),
            activation_bytes=n * n * query.bytes_per_biased_pair + self.bytes_of_bias(query, n, n * n),
        )

    def bytes_of_bias(self, query: CostContext, num_queries: int, num_pairs: int) -> int:
        """Return the bytes of the distances, of the queries' scores for every distance, and of the queries."""
        per_head = len(self.table) + (self.head_width if self.table.requires_grad else 0)
        return 8 * num_pairs + num_queries * self.num_heads * per_head * query.bytes_per_element


# A learned bias on the scores for every bucket of distances, shared by all layers (Raffel et al. 2020,
# https://arxiv.org/abs/1910.10683).


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
        """Return the bucket of a key that lies `ahead` tokens after its query."""
        count = self.num_buckets if self.causal else self.num_buckets // 2
        start = 0 if self.causal else (ahead > 0).long() * count
        distance = (-ahead).clamp(min=0) if self.causal else ahead.abs()
        exact = count // 2
        growth = torch.log(distance.clamp(min=1).float() / exact) / math.log(self.max_distance / exact)
        coarse = (exact + (growth * (count - exact)).long()).clamp(max=count - 1)
        return start + torch.where(distance < exact, distance, coarse)

    def costs(self, query: CostContext) -> Costs:
        """Return the costs; autograd saves the bias and its buckets, once for all layers."""
        pairs = query.length**2
        saved = pairs * query.bytes_per_biased_pair + self.bytes_of_bias(query, query.length, pairs)
        return Costs.of(self, activation_bytes=saved)

    def bytes_of_bias(self, query: CostContext, num_queries: int, num_pairs: int) -> int:
        """Return the bytes of the buckets."""
        del query, num_queries
        return 8 * num_pairs if self.table.requires_grad else 0
