"""Learned vectors of the distances between tokens, near ones each with its own and far ones by logarithmic buckets, as
in DeBERTa-v2 (He et al. 2021, https://arxiv.org/abs/2006.03654)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headtohead.components.component import Component, Context
from headtohead.components.costs import CostContext, Costs
from headtohead.components.norms import LayerNorm
from headtohead.errors import UsageError

_START = 0.02
"""The standard deviation of the vectors at the start, as published."""


@dataclass(frozen=True)
class DistanceBuckets:
    """Distances up to half of `num_buckets` have a bucket each, those up to `max_distance` share the rest, and those
    beyond the last; without a number, each distance below `max_distance` has its own."""

    num_buckets: int | None
    max_distance: int
    causal: bool

    def __post_init__(self) -> None:
        if self.num_buckets is not None and not 2 <= self.num_buckets // 2 + 1 < self.max_distance:
            raise UsageError(
                f"num_buckets={self.num_buckets} cannot sort distances up to max_distance={self.max_distance}: give "
                f"num_buckets of at least 2, and max_distance above {max(2, self.num_buckets // 2 + 1)}"
            )

    @property
    def reach(self) -> int:
        """Return the number of buckets on one side of a token, its own place among them."""
        return self.max_distance if self.num_buckets is None else self.num_buckets

    @property
    def count(self) -> int:
        """Return the number of buckets; causal ones need none for what lies ahead."""
        return self.reach if self.causal else 2 * self.reach

    def index(
        self, query_positions: Int[Tensor, "#B L"], key_positions: Int[Tensor, "#B M"]
    ) -> Int[Tensor, "#B 1 L M"]:
        """Return the bucket of each pair."""
        before = query_positions[:, None, :, None] - key_positions[:, None, None, :]
        bucket = before if self.num_buckets is None else _in_buckets(before, self.num_buckets // 2, self.max_distance)
        first = 0 if self.causal else -self.reach
        return bucket.clamp(first, self.reach - 1) - first


def _in_buckets(distance: Int[Tensor, "#B 1 L M"], near: int, furthest: int) -> Int[Tensor, "#B 1 L M"]:
    """Return distances up to `near` themselves, and others by buckets that widen up to `furthest`; rounded as in the
    published code, which decides where a bucket ends."""
    size = distance.abs().clamp(min=max(near - 1, 1))
    growth = torch.log(size / near) / torch.log(torch.tensor((furthest - 1) / near))
    wide = torch.ceil(growth * (near - 1)).long() + near
    return torch.where(size <= near, distance, wide * distance.sign())


class DistanceVectors(Component):
    """A vector for each bucket, normalised where `norm_eps` is a number."""

    no_mup_rule = "no rule is published for vectors of distances"

    def __init__(self, d_model: int, buckets: DistanceBuckets, *, norm_eps: float | None) -> None:
        super().__init__()
        self.d_model, self.buckets, self.norm_eps = d_model, buckets, norm_eps
        self.table = nn.Parameter(torch.empty(buckets.count, d_model))
        self.norm = None if norm_eps is None else LayerNorm(d_model, eps=norm_eps)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.table, std=_START)

    def no_weight_decay(self) -> Iterator[Tensor]:
        """Yield the vectors: a table of positions does not decay."""
        yield self.table

    def can_replace(self, other: DistanceVectors) -> bool:
        """Return whether the two are made alike."""
        return (self.d_model, self.buckets, self.norm_eps) == (other.d_model, other.buckets, other.norm_eps)

    def forward(self) -> Float[Tensor, "N D"]:
        """Return all vectors."""
        return self.table if self.norm is None else self.norm(self.table[None], Context())[0]

    def costs(self, query: CostContext) -> Costs:
        """Return the costs; autograd saves normalised vectors, and two numbers for each of them."""
        normed = 0 if self.norm is None else self.table.numel() * query.bytes_per_element + 8 * len(self.table)
        return Costs.of(self, activation_bytes=normed)
