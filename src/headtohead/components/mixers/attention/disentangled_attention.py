"""Disentangled attention (DeBERTa, He et al. 2021, https://arxiv.org/abs/2006.03654): the contents of two tokens meet,
and the content of each meets the distance to the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headtohead.components.component import Context, State, TensorParallelPlan
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import ScoreLinear
from headtohead.components.mixers.attention.distance_vectors import DistanceBuckets, DistanceVectors
from headtohead.components.mixers.attention.softmax_attention import (
    AttentionHeads,
    KeyValueState,
    SoftmaxAttention,
    merge_heads,
    split_heads,
)
from headtohead.components.sequence_ops.score_masks import as_bias, causal_mask, with_score_masks
from headtohead.errors import UsageError
from headtohead.field_group import FieldGroup
from headtohead.ranges import Length, Positive, Width


@dataclass(frozen=True)
class DistanceTerms(FieldGroup):
    """The terms of a score that know the distance of two tokens, and the vectors that these read."""

    content_to_position: bool = True  # whether queries meet keys made of distances
    position_to_content: bool = True  # whether keys meet queries made of distances
    own_maps: bool = False  # whether distances have maps of their own to keys and queries; false: those of the tokens
    num_buckets: Width | None = 32
    max_distance: Length = 128
    norm_eps: Positive | None = 1e-7
    shared: bool = True  # whether all layers read one table of vectors

    @property
    def number(self) -> int:
        """Return the number of terms."""
        return self.content_to_position + self.position_to_content


@dataclass
class DisentangledState(KeyValueState):
    """Keys and values, and the position of each."""

    positions: Int[Tensor, "B M"] | None = None

    def append_positions(self, positions: Int[Tensor, "#B L"]) -> Int[Tensor, "B M"]:
        """Append the tokens' positions, before their keys, and return those of all."""
        assert self.positions is not None, "a state comes from initial_state"
        end = self.length + positions.shape[1]
        self.positions[:, self.length : end] = positions
        return self.positions[:, :end]


class DisentangledAttention(SoftmaxAttention):
    """softmax((q_i k_j^T + q_i a_(i-j)^T + b_(i-j) k_j^T) / sqrt(K t)) v_j with t the number of terms; the keys a and
    the queries b are made of vectors of distances, which all layers share. Causal ones have none for tokens ahead."""

    follows_order = True
    no_mup_rule = "no rule is published for its vectors of distances"
    reads_rotation = False
    without_pairs = "has terms of its own for distances"

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        head_width: Width | None = None,
        bias: bool = True,  # whether all projections have biases
        terms: DistanceTerms = DistanceTerms(),
    ) -> None:
        heads = AttentionHeads(head_width=head_width, bias=bias)
        super().__init__(d_model, num_heads=num_heads, causal=causal, dropout=dropout, rotated=False, heads=heads)
        if not terms.number:
            raise UsageError(
                "content_to_position=false and position_to_content=false leave softmax attention: set one of them, or "
                "choose model/mixer=softmax_attention"
            )
        self.terms, self.scale = terms, (self.head_width * (1 + terms.number)) ** -0.5
        of_keys, of_queries = (
            ScoreLinear(d_model, num_heads * self.head_width, bias=bias) if terms.own_maps and is_met else None
            for is_met in (terms.content_to_position, terms.position_to_content)
        )
        self.distance_key, self.distance_query = of_keys, of_queries
        self.buckets = DistanceBuckets(terms.num_buckets, terms.max_distance, causal)
        self.distances: DistanceVectors | None = DistanceVectors(d_model, self.buckets, norm_eps=terms.norm_eps)
        self.shared_index = 0

    @property
    def saves_shared_bias(self) -> bool:
        return False

    def share_parts(self, shared: nn.ModuleList) -> None:
        """Let all layers with the same buckets read one table."""
        if not self.terms.shared or self.distances is None:
            return
        for index, part in enumerate(shared):
            if isinstance(part, DistanceVectors) and part.can_replace(self.distances):
                self.shared_index = index
                break
        else:
            self.shared_index = len(shared)
            shared.append(self.distances)
        self.distances = None

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        q, k, v = self.project(x, context)
        here = _positions(x, context)
        bias = self.pair_bias(q, k, (here, here), context, causal=self.causal)
        dropout = self.dropout if self.training else 0.0
        y = self.read(q, k, v, bias=bias, causal=False, dropout=dropout)
        return self.project_output(merge_heads(y), x)

    def pair_bias(
        self,
        q: Float[Tensor, "B H L K"],
        k: Float[Tensor, "B H M K"],
        positions: tuple[Int[Tensor, "#B L"], Int[Tensor, "#B M"]],
        context: Context,
        *,
        causal: bool,
    ) -> Float[Tensor, "B H L M"]:
        """Return the terms of distances, scaled, and what masks and encodings add."""
        keys, queries = self.of_distances(context)
        index, scores = self.buckets.index(*positions), torch.zeros((), dtype=q.dtype, device=q.device)
        if keys is not None:
            scores = scores + (q @ keys.mT).gather(-1, index.expand(*q.shape[:2], -1, -1))
        if queries is not None:
            scores = scores + _meet_distances(k, queries, index)
        bias = self.full_bias(q, context)
        if bias is None and causal:
            bias = as_bias(causal_mask(q.shape[2], k.shape[2], q.device), q.dtype)
        return scores * self.scale if bias is None else scores * self.scale + bias

    def of_distances(self, context: Context) -> tuple[Float[Tensor, "1 H N K"] | None, Float[Tensor, "1 H N K"] | None]:
        """Return the keys that queries meet and the queries that keys meet, one for each distance."""
        vectors = context.shared[self.shared_index] if self.distances is None else self.distances()
        vectors = F.dropout(vectors, self.dropout, self.training)[None]
        to_key, to_query = self.distance_key or self.key, self.distance_query or self.query
        keys = split_heads(to_key(vectors), self.head_width) if self.terms.content_to_position else None
        queries = split_heads(to_query(vectors), self.head_width) if self.terms.position_to_content else None
        return keys, queries

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        q, k, _ = self.project(x, context)
        causal = self.causal if causal is None else causal
        if causal != self.causal:  # the shared mask holds the model's own direction
            context = with_score_masks(context, x, causal=causal)
        here = _positions(x, context)
        return self.weights(q, k, self.pair_bias(q, k, (here, here), context, causal=causal))

    def initial_state(self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype) -> State:
        state = cast(KeyValueState, super().initial_state(batch_size, max_length, device=device, dtype=dtype))
        positions = torch.zeros(batch_size, max_length, dtype=torch.long, device=device)
        return DisentangledState(0, state.keys, state.values, state.fused, positions)

    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> tuple[Float[Tensor, "B L D"], State]:
        assert isinstance(state, DisentangledState)
        q, k, v = self.project(x, context, state.fused)
        here = _positions(x, context, state.length)
        positions = here, state.append_positions(here)
        keys, values = state.append(k, v)
        bias = self.pair_bias(q, keys, positions, context, causal=True)
        return self.project_output(merge_heads(self.read_next(q, keys, values, bias)), x), state

    def tensor_parallel_plan(self) -> TensorParallelPlan | None:
        """Return None: the vectors of distances would have a gradient from each device's heads."""
        return None

    def costs(self, query: CostContext) -> Costs:
        """Return the costs of softmax attention that makes its weights, and of the terms. Autograd saves for each the
        content, what it meets and their products, and once the distance of every pair; on a GPU biases for weights."""
        n, vectors, number = query.length, self.buckets.count, self.terms.number
        inner, pairs = self.num_heads * self.head_width, n * n
        met = number * (n * inner + vectors * inner + self.num_heads * n * vectors)
        saved = n * self.d_model + 4 * n * inner + self.num_heads * pairs + met
        full = super().costs(query)
        own = Costs() if self.distances is None else self.distances.costs(query)
        return Costs.of(
            self,
            forward_flops=full.forward_flops + 2 * number * vectors * inner * (self.d_model + n),
            state_elements=full.state_elements,
            activation_bytes=saved * query.bytes_per_element + 8 * pairs + own.activation_bytes,
        )


def _positions(x: Float[Tensor, "B L D"], context: Context, start: int = 0) -> Int[Tensor, "#B L"]:
    """Return the positions of the tokens, counted from `start` where nobody placed them."""
    if context.positions is not None:
        return context.positions
    return torch.arange(start, start + x.shape[1], device=x.device)[None]


def _meet_distances(
    k: Float[Tensor, "B H M K"], queries: Float[Tensor, "1 H N K"], index: Int[Tensor, "#B 1 L M"]
) -> Float[Tensor, "B H L M"]:
    """Return the score of each key under the query of its distance; one token meets all keys without a product with
    every distance."""
    if index.shape[2] == 1 < index.shape[3]:
        of_keys = queries[0][:, index[:, 0, 0]].transpose(0, 1)
        return (k * of_keys).sum(-1).unsqueeze(2)
    return (k @ queries.mT).gather(-1, index.mT.expand(*k.shape[:2], -1, -1)).mT
