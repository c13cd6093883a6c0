"""Mixture of block attention (Lu et al. 2025, https://arxiv.org/abs/2502.13189): every query of a head attends to its
own block of tokens and to those few earlier blocks whose mean key suits it best."""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.components.attention_maps import softmax_weights
from headtohead.components.component import Context
from headtohead.components.costs import CostContext, Costs
from headtohead.components.mixers.attention.fused_attention import attend
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, merge_heads
from headtohead.components.mixers.attention.sparse_attention import (
    SparseAttention,
    apart,
    positions_of,
    score_bias,
)
from headtohead.components.mixers.attention.windowed_attention import WindowedCache
from headtohead.components.precision import at_least_float32, without_autocast
from headtohead.components.sequence_ops.ragged_rows import one_row_per_document
from headtohead.ranges import Length


class Moba(SparseAttention):
    """softmax(q k^T / sqrt(K)) v over the keys of `num_blocks` blocks at most: the query's own up to itself, and the
    earlier ones with the largest q . mean(k). The choice has no gradient."""

    no_mup_rule = "no rule is published for the choice of blocks"
    can_be_bidirectional: ClassVar[bool] = False

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        block_size: Length = 32,
        num_blocks: Length = 3,
        heads: AttentionHeads = AttentionHeads(),
    ) -> None:
        super().__init__(d_model, num_heads=num_heads, causal=causal, dropout=dropout, heads=heads)
        self.block_size, self.num_blocks = block_size, num_blocks

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        rows, context, back = apart(x, context)
        return back(super().forward(rows, context))

    def attend(
        self,
        q: Float[Tensor, "B H L K"],
        k: Float[Tensor, "B G L K"],
        v: Float[Tensor, "B G L K"],
        context: Context,
    ) -> Float[Tensor, "B H L K"]:
        dropout = self.dropout if self.training else 0.0
        return attend(q, k, v, bias=self.bias(q, k, context), causal=False, scale=self.scale, dropout=dropout)

    def bias(
        self, q: Float[Tensor, "B H L K"], k: Float[Tensor, "B G L K"], context: Context
    ) -> Float[Tensor, "B H L L"]:
        """Return minus infinity where a query does not attend, else what the position encoding adds to the scores."""
        positions = positions_of(context, q.transpose(1, 2))
        allowed = self.routed(q, k, torch.arange(q.shape[2], device=q.device)[None])
        return score_bias(context.encoding, q, positions, positions, allowed, self.scale)

    @torch.no_grad()
    def routed(
        self, q: Float[Tensor, "B H L K"], k: Float[Tensor, "B G M K"], slots: Int[Tensor, "#B L"]
    ) -> Bool[Tensor, "B H L M"]:
        """Return the keys that queries attend to, given the queries' own indices among the keys."""
        length, size = k.shape[2], self.block_size
        own, blocks = slots[:, None, :, None] // size, torch.arange(-(-length // size), device=q.device)
        scores = self.block_scores(q, k).masked_fill(blocks >= own, float("-inf"))
        best = scores.topk(min(self.num_blocks - 1, len(blocks)), dim=-1).indices
        chosen = torch.zeros_like(scores, dtype=torch.bool).scatter_(-1, best, value=True)
        chosen = (chosen & (blocks < own)) | (blocks == own)
        seen = torch.arange(length, device=q.device) <= slots[:, None, :, None]
        allowed: Tensor = chosen.repeat_interleave(size, dim=-1)[..., :length] & seen
        return allowed

    def block_scores(self, q: Float[Tensor, "B H L K"], k: Float[Tensor, "B G M K"]) -> Float[Tensor, "B H L N"]:
        """Return the products of queries with the mean keys of all blocks, in float32 at least; the mean of a last
        block that is not full counts for no query."""
        exact = at_least_float32(q.dtype)
        padded = F.pad(k.to(exact), (0, 0, 0, -k.shape[2] % self.block_size))
        means = padded.unflatten(2, (-1, self.block_size)).mean(3)
        with without_autocast(q):
            scores: Tensor = q.to(exact) @ means.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT
        return scores

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """Return the weights; blocks are chosen among those before a query, whatever `causal` is."""
        del causal
        packed = one_row_per_document(x, context)
        rows, context, _ = apart(x, context)
        q, k, _ = self.project(rows, context)
        weights = softmax_weights(q, k, bias=self.bias(q, k, context), scale=self.scale)
        if packed is None:
            return weights
        row, index = packed.row[:, :, None], packed.index
        pairs = weights[row, :, index[:, :, None], index[:, None]] * (row == row.mT)[..., None]
        return pairs.permute(0, 3, 1, 2)

    def step_token(self, x: Float[Tensor, "B 1 D"], state: WindowedCache, context: Context) -> Float[Tensor, "B 1 D"]:
        q, k, v = self.project(x, context)
        positions, count = positions_of(context, x), state.count
        assert count is not None, "a state comes from initial_state"
        state.put(k, v, positions)
        keys, values, known, _ = state.last_tokens()
        allowed = self.routed(q, keys, count[:, None])
        bias = score_bias(context.encoding, q, positions, known, allowed, self.scale)
        state.read(context, 1)
        y: Tensor = self.output(
            merge_heads(attend(q, keys, values, bias=bias, causal=False, scale=self.scale, dropout=0.0))
        )
        return y

    def pattern(
        self, query_positions: Int[Tensor, "#B L"], key_positions: Int[Tensor, "#B M"], lengths: Int[Tensor, "#B L"]
    ) -> Bool[Tensor, "#B L M"]:
        """Return the keys among which the blocks are chosen."""
        del lengths
        return query_positions[:, :, None] >= key_positions[:, None]

    def num_pairs(self, length: int) -> int:
        size = self.block_size
        own = sum(index % size + 1 for index in range(length))
        return own + size * sum(min(index // size, self.num_blocks - 1) for index in range(length))

    def num_scored(self, length: int) -> tuple[int, int]:
        return length, length * length

    def saved_elements(self, query: CostContext) -> tuple[int, int]:
        """Count queries, keys and values of all heads, outputs, and the mask of every head, or weights instead."""
        n, inner = query.length, self.num_heads * self.head_width
        return 4 * n * inner + self.num_heads * n * n, 0 if query.explicit_attention else n * self.num_heads

    def costs(self, query: CostContext) -> Costs:
        """Return the costs of attention within the chosen blocks, and of the choice, which no gradient goes through."""
        past = sum(index // self.block_size for index in range(query.length))
        choice = 2 * past * self.num_heads * self.head_width
        return super().costs(query) + Costs(forward_flops=choice, training_flops=choice)
