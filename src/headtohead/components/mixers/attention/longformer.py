"""Longformer: windows, and a few global tokens that see all and are seen by all, with projections of their own
(Beltagy et al. 2020, https://arxiv.org/abs/2004.05150)."""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.components.attention_maps import softmax_weights
from headtohead.components.component import Context, TensorParallelPlan
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import LinearMap, ScoreLinear
from headtohead.components.mixers.attention.fused_attention import attend
from headtohead.components.mixers.attention.sliding_window import (
    differ_by_row,
    masked,
    required_window,
    row_positions,
    window_pairs,
)
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, merge_heads, split_heads
from headtohead.components.mixers.attention.sparse_attention import (
    SparseAttention,
    apart,
    on_the_left,
    positions_of,
    score_bias,
    slots_of,
)
from headtohead.components.mixers.attention.windowed_attention import (
    FirstAndLastCache,
    TokenBlocks,
    WindowedCache,
    attend_blocks,
    empty_state,
    folded,
    near,
    unfolded,
)
from headtohead.errors import UsageError
from headtohead.ranges import Count, Length


class Longformer(SparseAttention):
    """The first `num_global` tokens of a document are global, as [CLS] is.

    Others attend to the global tokens and to `window` tokens on each side of them in one softmax, by query, key and
    value; the global ones to all tokens, by global_query, global_key and global_value. A causal one attends to the
    global tokens and to the window - 1 tokens before it: its global tokens see no more than others do, and have no
    projections of their own.
    """

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        window: Length = 128,
        num_global: Count = 1,
        bias: bool = True,
        output_bias: bool | None = None,
    ) -> None:
        heads = AttentionHeads(bias=bias, output_bias=output_bias)
        super().__init__(d_model, num_heads=num_heads, causal=causal, dropout=dropout, heads=heads)
        if num_global < 1:
            raise UsageError(
                f"num_global={num_global} makes no token global: choose 1 or more, or mixer=sliding_window"
            )
        self.window, self.num_global = required_window(window), num_global
        self.back = window - 1 if causal else window
        self.global_query = None if causal else ScoreLinear(d_model, d_model, bias=bias)
        self.global_key = None if causal else ScoreLinear(d_model, d_model, bias=bias)
        self.global_value = None if causal else LinearMap(d_model, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        x, context, back = apart(x, context)
        seen = self.attend(*self.project(x, context), context)
        if not self.causal:
            everything = self.attend_globally(*self.project_global(x, context), context)
            seen = torch.cat((everything, seen[:, :, self.num_global :]), dim=2)
        return back(self.output(merge_heads(seen)))

    def project_global(self, x: Float[Tensor, "B L D"], context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Project the global tokens to queries, and all tokens to the keys and values that global tokens attend to."""
        return self.global_queries(x[:, : self.num_global], context), *self.global_keys(x, context)

    def global_queries(self, x: Float[Tensor, "B T D"], context: Context) -> Float[Tensor, "B H T K"]:
        assert self.global_query is not None, "a bidirectional one has it"
        return self.turned(split_heads(self.global_query(x), self.head_width), context, are_keys=False)

    def global_keys(self, x: Float[Tensor, "B L D"], context: Context) -> tuple[Tensor, Tensor]:
        assert self.global_key is not None and self.global_value is not None, "a bidirectional one has them"
        k, v = (split_heads(made(x), self.head_width) for made in (self.global_key, self.global_value))
        return self.turned(k, context, are_keys=True), v

    def turned(self, heads: Float[Tensor, "B H T K"], context: Context, *, are_keys: bool) -> Float[Tensor, "B H T K"]:
        """Rotate the queries or keys of the first tokens if positions are rotary."""
        if context.encoding is None or context.rotation is None:
            return heads
        rotate = context.encoding.rotate_keys if are_keys else context.encoding.rotate
        return rotate(heads, context.rotation[..., : heads.shape[2], :])

    def attend_globally(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H L K"],
        v: Float[Tensor, "B H L K"],
        context: Context,
    ) -> Float[Tensor, "B H T K"]:
        """Attend from the global tokens to all tokens."""
        dropout, bias = self.dropout if self.training else 0.0, None
        if differ_by_row(context, causal=False):
            everybody = torch.ones(1, k.shape[2], dtype=torch.bool, device=q.device)
            allowed = (everybody if context.valid is None else context.valid)[:, None, None]
            positions = positions_of(context, k.transpose(1, 2))
            bias = score_bias(context.encoding, q, positions[:, : q.shape[2]], positions, allowed, self.scale)
        return attend(q, k, v, bias=bias, causal=False, scale=self.scale, dropout=dropout)

    def attend(
        self,
        q: Float[Tensor, "B H L K"],
        k: Float[Tensor, "B H L K"],
        v: Float[Tensor, "B H L K"],
        context: Context,
    ) -> Float[Tensor, "B H L K"]:
        """Attend from all tokens as if none were global, to the global tokens and the window in one softmax."""
        blocks, first = self.blocks(q.shape[2]), min(self.num_global, q.shape[2])
        by_row = q.shape[0] > 1 and differ_by_row(context, causal=self.causal)

        def with_global(t: Tensor) -> Tensor:
            shared = t[:, :, None, :first].expand(-1, -1, blocks.number, -1, -1)
            return folded(torch.cat((shared, blocks.keys(t)), dim=3), by_row=by_row)

        queries = folded(blocks.queries(q), by_row=by_row)
        bias = self.block_bias(queries, context, blocks, first, len(q) if by_row else 1)
        dropout = self.dropout if self.training else 0.0
        y = attend_blocks(queries, with_global(k), with_global(v), bias=bias, scale=self.scale, dropout=dropout)
        return unfolded(y, len(q), q.shape[2], by_row=by_row)

    def blocks(self, length: int) -> TokenBlocks:
        return TokenBlocks.around(length, self.window, back=self.back, ahead=0 if self.causal else self.back)

    def block_bias(
        self, queries: Float[Tensor, "X Y C K"], context: Context, blocks: TokenBlocks, first: int, rows: int
    ) -> Float[Tensor, "#X #Y C T"]:
        """Return the bias of every block: the global tokens, then those of the window that are not global. Queries of
        global tokens are masked here if they attend everywhere separately."""
        at, of = blocks.indices(queries.device)
        within = near(at, of, back=self.back, ahead=0 if self.causal else self.back)
        within = within & (of >= first) & (of < blocks.length)
        seen = torch.arange(first, device=queries.device) <= at
        if not self.causal:
            within, seen = within & (at >= first), (at >= first).expand_as(seen)
        window = masked(within, context, blocks, rows, causal=self.causal)
        seen = seen.expand(rows, -1, -1, -1)
        if context.valid is not None and not self.causal:
            seen = seen & context.valid[:, None, None, :first]
        allowed = torch.cat((seen.flatten(0, 1)[:, None], window), dim=-1)
        positions = row_positions(context, blocks.length, rows, queries.device)
        shared = positions[:, None, :first].expand(-1, blocks.number, -1)
        keys = torch.cat((shared, blocks.of_keys(positions)), dim=-1).flatten(0, 1)
        query_positions = blocks.of_queries(positions).flatten(0, 1)
        return score_bias(context.encoding, queries, query_positions, keys, allowed, self.scale)

    def pattern(
        self, query_positions: Int[Tensor, "#B L"], key_positions: Int[Tensor, "#B M"], lengths: Int[Tensor, "#B L"]
    ) -> Bool[Tensor, "#B L M"]:
        del lengths
        at, of = query_positions[:, :, None], key_positions[:, None, :]
        pairs = near(at, of, back=self.back, ahead=self.back) | (of < self.num_global)
        return pairs if self.causal else pairs | (at < self.num_global)

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        by_others = super().attention(x, context, causal=causal)
        if self.causal:
            return by_others
        q, k, positions = self.global_queries(x, context), self.global_keys(x, context)[0], positions_of(context, x)
        allowed = self.allowed(x, context, causal=bool(causal))
        bias = score_bias(context.encoding, q, positions, positions, allowed, self.scale)
        return torch.where(self.is_global(x, context), softmax_weights(q, k, bias=bias, scale=self.scale), by_others)

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        if self.causal:
            return super().mixed(weights, x, context)
        values = (self.global_keys(x, context)[1], self.project(x, context)[2])
        by_global, by_others = (weights.to(v.dtype) @ v for v in values)
        y: Tensor = self.output(merge_heads(torch.where(self.is_global(x, context), by_global, by_others)))
        return y

    def is_global(self, x: Float[Tensor, "B L D"], context: Context) -> Bool[Tensor, "#B 1 L 1"]:
        return (slots_of(context, x)[0] < self.num_global)[:, None, :, None]

    def tensor_parallel_plan(self) -> TensorParallelPlan | None:
        return None

    def room(self, max_length: int) -> int:
        return min(self.window, max_length)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> FirstAndLastCache:
        make = partial(empty_state, batch_size, self.num_heads, width=self.head_width, device=device, dtype=dtype)
        last = make(room=self.room(max_length))
        first = make(room=min(self.num_global, max_length))
        return FirstAndLastCache(0, last.keys, last.values, last.positions, last.count, first)

    def step_prompt(self, x: Float[Tensor, "B L D"], state: WindowedCache, context: Context) -> Float[Tensor, "B L D"]:
        assert isinstance(state, FirstAndLastCache)
        x, context, back = on_the_left(x, context)
        q, k, v = self.project(x, context)
        state.read(context, x.shape[1])
        state.fill(k, v, positions_of(context, x))
        state.first.start(k[:, :, : self.num_global], v[:, :, : self.num_global], positions_of(context, x))
        return back(self.output(merge_heads(self.attend(q, k, v, context))))

    def step_token(self, x: Float[Tensor, "B 1 D"], state: WindowedCache, context: Context) -> Float[Tensor, "B 1 D"]:
        assert isinstance(state, FirstAndLastCache)
        q, k, v = self.project(x, context)
        positions = positions_of(context, x)
        state.put(k, v, positions)
        state.first.put(k, v, positions, first=True)
        both = zip(state.first.first_tokens(), state.last_tokens(self.num_global), strict=True)
        keys, values, known, there = (torch.cat(parts, dim=2 if parts[0].dim() == 4 else 1) for parts in both)
        state.read(context, 1)
        bias = score_bias(context.encoding, q, positions, known, there[:, None, None], self.scale)
        y = attend(q, keys, values, bias=bias, causal=False, scale=self.scale, dropout=0.0)
        output: Tensor = self.output(merge_heads(y))
        return output

    def num_pairs(self, length: int) -> int:
        first = min(self.num_global, length)
        others = length - first
        among_first = first * (first + 1) // 2 if self.causal else first * length
        return among_first + others * first + (window_pairs(others, self.back, causal=self.causal) if others else 0)

    def num_scored(self, length: int) -> tuple[int, int]:
        blocks, first = self.blocks(length), min(self.num_global, length)
        queries, pairs = blocks.padded_length, blocks.padded_length * (first + blocks.span)
        return (queries, pairs) if self.causal else (queries + first, pairs + first * length)

    def saved_elements(self, query: CostContext) -> tuple[int, int]:
        """Count queries, outputs, keys and values of blocks beside the global ones, and masks. Where global tokens have
        their own projections, the same for these, and all outputs in one. If explicit, outputs in one, and weights for
        masks."""
        n, d, blocks = query.length, self.d_model, self.blocks(query.length)
        first = min(self.num_global, n)
        span, masks = first + blocks.span, max(query.biased_heads, 1)
        if query.explicit_attention:
            queries, pairs = self.num_scored(n)
            everything = 0 if self.causal else 2 * n * d
            return (queries + n + 2 * blocks.number * span) * d + everything + self.num_heads * pairs, 0
        saved = 2 * d * (blocks.padded_length + blocks.number * span) + masks * blocks.padded_length * span
        if self.causal:
            return saved, blocks.padded_length * self.num_heads
        saved += 2 * d * (first + n) + n * d + query.biased_heads * first * n
        return saved, (blocks.padded_length + first) * self.num_heads

    def costs(self, query: CostContext) -> Costs:
        """Add the costs of global tokens: projections of their own, or if causal a part of the state."""
        n, d = query.length, self.d_model
        first = min(self.num_global, n)
        flops = 0 if self.causal else 2 * d * d * (first + 2 * n)
        return super().costs(query) + Costs(forward_flops=flops, training_flops=3 * flops, state_elements=2 * first * d)
