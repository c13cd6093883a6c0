"""Longformer: windows, and a few global tokens that see all and are seen by all, with projections of their own
(Beltagy et al. 2020, https://arxiv.org/abs/2004.05150)."""

from __future__ import annotations

from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headtohead.components.attending import softmax_weights
from headtohead.components.contracts import Context, CostQuery, Costs, Division
from headtohead.components.linears import ScoreLinear
from headtohead.components.mixers.blocks import Blocks, attend_blocks, folded, near, unfolded
from headtohead.components.mixers.longformer_state import LongformerState
from headtohead.components.mixers.placed_state import Kept, PlacedState, empty_state
from headtohead.components.mixers.sliding_window import (
    differ_by_row,
    masked,
    required_window,
    row_positions,
    window_pairs,
)
from headtohead.components.mixers.softmax_attention import attend, merge_heads, split_heads
from headtohead.components.mixers.sparse_attention import (
    SparseAttention,
    apart,
    on_the_left,
    places_of,
    positions_of,
    score_bias,
)


class Longformer(SparseAttention):
    """The first `num_global` tokens of a document are global, as [CLS] is; a causal one keeps them from the future.

    Others look at the global tokens and at `window` tokens on each side of them (causal: the window - 1 before) in one
    softmax, by query, key and value; the global ones by global_query, global_key and global_value.
    """

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        window: int = 128,
        num_global: int = 1,
        bias: bool = True,
        output_bias: bool | None = None,
    ) -> None:
        super().__init__(
            d_model, num_heads=num_heads, causal=causal, dropout=dropout, bias=bias, output_bias=output_bias
        )
        if num_global < 1:
            raise ValueError(
                f"num_global={num_global} makes no token global: choose 1 or more, or mixer=sliding_window"
            )
        self.window, self.num_global = required_window(window), num_global
        self.back = window - 1 if causal else window
        self.global_query = ScoreLinear(d_model, d_model, bias=bias)
        self.global_key = ScoreLinear(d_model, d_model, bias=bias)
        self.global_value = nn.Linear(d_model, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        x, context, back = apart(x, context)
        return back(self.output(merge_heads(self.both(x, context))))

    def both(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B H L K"]:
        """What the global tokens see, then what the others do."""
        everything = self.look_everywhere(*self.project_global(x, context), context)
        return torch.cat((everything, self.look(*self.project(x, context), context)[:, :, self.num_global :]), dim=2)

    def project_global(self, x: Float[Tensor, "B L D"], context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Queries of the global tokens; keys and values of those that they may look at."""
        first = x[:, : self.num_global]
        readable = first if self.causal else x
        q = self.global_heads(self.global_query, first, context)
        k = self.global_heads(self.global_key, readable, context)
        return q, k, self.global_heads(self.global_value, readable, context)

    def global_heads(
        self, projection: nn.Linear, x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B H L K"]:
        """One projection of the first tokens by head; queries and keys rotated as asked."""
        heads = split_heads(projection(x), self.head_width)
        if projection is self.global_value or context.encoding is None or context.rotation is None:
            return heads
        return context.encoding.rotate(heads, context.rotation[..., : x.shape[1], :])

    def look_everywhere(
        self,
        q: Float[Tensor, "B H T K"],
        k: Float[Tensor, "B H M K"],
        v: Float[Tensor, "B H M K"],
        context: Context,
    ) -> Float[Tensor, "B H T K"]:
        """What the global tokens see: all, or if causal those before them."""
        dropout, num_keys = self.dropout if self.training else 0.0, k.shape[2]
        bias = None
        if differ_by_row(context, causal=self.causal):
            allowed = torch.ones(1, 1, q.shape[2], num_keys, dtype=torch.bool, device=q.device)
            if self.causal:
                allowed = allowed.tril()
            elif context.valid is not None:
                allowed = allowed & context.valid[:, None, None]
            positions = positions_of(context, k.transpose(1, 2))[:, :num_keys]
            bias = score_bias(context.encoding, q, positions[:, : q.shape[2]], positions, allowed, self.scale)
        return attend(q, k, v, bias=bias, causal=self.causal, scale=self.scale, dropout=dropout)

    def look(
        self,
        q: Float[Tensor, "B H L K"],
        k: Float[Tensor, "B H L K"],
        v: Float[Tensor, "B H L K"],
        context: Context,
    ) -> Float[Tensor, "B H L K"]:
        """What all tokens see as if none of them were global: the global ones and the window, in one softmax."""
        blocks, first = self.blocks(q.shape[2]), min(self.num_global, q.shape[2])
        by_row = len(q) > 1 and differ_by_row(context, causal=self.causal)

        def with_global(t: Tensor) -> Tensor:
            shared = t[:, :, None, :first].expand(-1, -1, blocks.number, -1, -1)
            return folded(torch.cat((shared, blocks.keys(t)), dim=3), by_row=by_row)

        queries = folded(blocks.queries(q), by_row=by_row)
        bias = self.block_bias(queries, context, blocks, first, len(q) if by_row else 1)
        dropout = self.dropout if self.training else 0.0
        y = attend_blocks(queries, with_global(k), with_global(v), bias=bias, scale=self.scale, dropout=dropout)
        return unfolded(y, len(q), q.shape[2], by_row=by_row)

    def blocks(self, length: int) -> Blocks:
        return Blocks.around(length, self.window, back=self.back, ahead=0 if self.causal else self.back)

    def block_bias(
        self, queries: Float[Tensor, "X Y C K"], context: Context, blocks: Blocks, first: int, rows: int
    ) -> Float[Tensor, "#X #Y C T"]:
        """For every block: the global tokens, then those of the window that are not global."""
        at, of = blocks.indices(queries.device)
        within = near(at, of, back=self.back, ahead=0 if self.causal else self.back)
        window = masked(within & (of >= first) & (of < blocks.length), context, blocks, rows, causal=self.causal)
        seen = ((torch.arange(first, device=queries.device) <= at) | (not self.causal)).expand(rows, -1, -1, -1)
        if context.valid is not None and not self.causal:
            seen = seen & context.valid[:, None, None, :first]
        allowed = torch.cat((seen.flatten(0, 1)[:, None], window), dim=-1)
        positions = row_positions(context, blocks.length, rows, queries.device)
        shared = positions[:, None, :first].expand(-1, blocks.number, -1)
        keys = torch.cat((shared, blocks.of_keys(positions)), dim=-1).flatten(0, 1)
        places = blocks.of_queries(positions).flatten(0, 1)
        return score_bias(context.encoding, queries, places, keys, allowed, self.scale)

    def pattern(
        self, query_places: Int[Tensor, "#B L"], key_places: Int[Tensor, "#B M"], lengths: Int[Tensor, "#B L"]
    ) -> Bool[Tensor, "#B L M"]:
        del lengths
        at, of = query_places[:, :, None], key_places[:, None, :]
        return near(at, of, back=self.back, ahead=self.back) | (at < self.num_global) | (of < self.num_global)

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        positions = positions_of(context, x)
        allowed = self.allowed(x, context, causal=self.causal if causal is None else causal)
        q, k, _ = self.project(x, context)
        global_q, global_k = (self.global_heads(made, x, context) for made in (self.global_query, self.global_key))
        by_others, by_global = (
            softmax_weights(
                queries,
                keys,
                bias=score_bias(context.encoding, queries, positions, positions, allowed, self.scale),
                scale=self.scale,
            )
            for queries, keys in ((q, k), (global_q, global_k))
        )
        return torch.where(self.is_global(x, context), by_global, by_others)

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        _, _, v = self.project(x, context)
        global_v = self.global_heads(self.global_value, x, context)
        by_others, by_global = (weights.to(v.dtype) @ values for values in (v, global_v))
        return self.output(merge_heads(torch.where(self.is_global(x, context), by_global, by_others)))

    def is_global(self, x: Float[Tensor, "B L D"], context: Context) -> Bool[Tensor, "#B 1 L 1"]:
        return (places_of(context, x)[0] < self.num_global)[:, None, :, None]

    def division(self) -> Division | None:
        return None

    def room(self, max_length: int) -> int:
        return min(self.window, max_length)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> LongformerState:
        make = partial(empty_state, batch_size, self.num_heads, width=self.head_width, device=device, dtype=dtype)
        window, first = make(room=self.room(max_length)), min(self.num_global, max_length)
        caches = (window.keys, window.values, window.positions, window.count)
        return LongformerState(0, *caches, seen=make(room=first), own=make(room=first))

    def prompt(self, x: Float[Tensor, "B L D"], state: PlacedState, context: Context) -> Float[Tensor, "B L D"]:
        assert isinstance(state, LongformerState)
        x, context, back = on_the_left(x, context)
        q, k, v = self.project(x, context)
        own_q, own_k, own_v = self.project_global(x, context)
        state.read(context, x.shape[1])
        state.fill(k, v, positions_of(context, x))
        for cache, keys, values in ((state.seen, k, v), (state.own, own_k, own_v)):
            cache.start(keys[:, :, : self.num_global], values[:, :, : self.num_global], positions_of(context, x))
        others = self.look(q, k, v, context)[:, :, self.num_global :]
        return back(
            self.output(merge_heads(torch.cat((self.look_everywhere(own_q, own_k, own_v, context), others), 2)))
        )

    def one(self, x: Float[Tensor, "B 1 D"], state: PlacedState, context: Context) -> Float[Tensor, "B 1 D"]:
        assert isinstance(state, LongformerState) and state.count is not None
        q, k, v = self.project(x, context)
        positions, place = positions_of(context, x), state.count[:, None]
        state.put(k, v, positions)
        state.seen.put(k, v, positions, first=True)
        y = self.from_cache(q, [state.seen.first_kept(), state.kept(self.num_global)], positions, context)
        if state.fewest < self.num_global:  # in some row, this token may be a global one
            own_q, own_k, own_v = self.project_global(x, context)
            state.own.put(own_k, own_v, positions, first=True)
            own = self.from_cache(own_q, [state.own.first_kept()], positions, context)
            y = torch.where((place < self.num_global)[:, None, None], own, y)
        state.read(context, 1)
        return self.output(merge_heads(y))

    def from_cache(
        self, q: Float[Tensor, "B H 1 K"], kept: list[Kept], positions: Int[Tensor, "#B 1"], context: Context
    ) -> Float[Tensor, "B H 1 K"]:
        """What one query sees of what was kept."""
        keys, values = (torch.cat(parts, dim=2) for parts in zip(*[one[:2] for one in kept], strict=True))
        known, there = (torch.cat(parts, dim=1) for parts in zip(*[one[2:] for one in kept], strict=True))
        bias = score_bias(context.encoding, q, positions, known, there[:, None, None], self.scale)
        return attend(q, keys, values, bias=bias, causal=False, scale=self.scale, dropout=0.0)

    def num_pairs(self, length: int) -> int:
        first = min(self.num_global, length)
        others = length - first
        by_global = first * (first + 1) // 2 if self.causal else first * length
        return by_global + others * first + (window_pairs(others, self.back, causal=self.causal) if others else 0)

    def kept_elements(self, query: CostQuery) -> tuple[int, int]:
        """Of blocks: queries, outputs, keys and values beside the global ones, masks. Of the global tokens the same.
        And all outputs in one."""
        n, d, blocks = query.length, self.d_model, self.blocks(query.length)
        first = min(self.num_global, n)
        readable, span = first if self.causal else n, first + blocks.span
        mask = max(query.biased_heads, 1) * blocks.padded_length * span + query.biased_heads * first * readable
        kept = 2 * d * (blocks.padded_length + blocks.number * span + first + readable) + n * d + mask
        return kept, (blocks.padded_length + first) * self.num_heads

    def costs(self, query: CostQuery) -> Costs:
        """The projections of the global tokens besides, and what decoding keeps of these."""
        n, d = query.length, self.d_model
        first = min(self.num_global, n)
        flops = 2 * d * d * (first + 2 * (first if self.causal else n))
        return super().costs(query) + Costs(forward_flops=flops, training_flops=3 * flops, state_elements=4 * first * d)
