"""Sliding-window attention: every token attends to its neighbours alone, at a cost linear in length, forward and
backward (Beltagy et al. 2020, https://arxiv.org/abs/2004.05150; Jiang et al. 2023,
https://arxiv.org/abs/2310.06825)."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.components.component import Context
from headtohead.components.costs import CostContext, Costs
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads
from headtohead.components.mixers.attention.sparse_attention import SparseAttention, score_bias
from headtohead.components.mixers.attention.windowed_attention import TokenBlocks, attend_blocks, folded, near, unfolded
from headtohead.errors import UsageError
from headtohead.ranges import Length, Positive


class SlidingWindow(SparseAttention):
    """Causal: a token sees itself and the window - 1 before it; bidirectional: `window` on each side of it too."""

    sees_window = True

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        window: Length = 128,
        score_cap: Positive | None = None,
        heads: AttentionHeads = AttentionHeads(),
    ) -> None:
        super().__init__(d_model, num_heads=num_heads, causal=causal, dropout=dropout, score_cap=score_cap, heads=heads)
        self.window = required_window(window)
        self.back = window - 1 if causal else window

    def attend(
        self,
        q: Float[Tensor, "B H L K"],
        k: Float[Tensor, "B G L K"],
        v: Float[Tensor, "B G L K"],
        context: Context,
    ) -> Float[Tensor, "B H L K"]:
        dropout = self.dropout if self.training else 0.0
        blocks = self.blocks(q.shape[2])
        by_row = q.shape[0] > 1 and differ_by_row(context, causal=self.causal)
        queries, keys, values = (folded(t, by_row=by_row) for t in (blocks.queries(q), blocks.keys(k), blocks.keys(v)))
        bias = self.block_bias(queries, context, blocks, len(q) if by_row else 1)
        y = self.read_blocks(queries, keys, values, bias, dropout)
        return unfolded(y, len(q), q.shape[2], by_row=by_row)

    def read_blocks(
        self,
        q: Float[Tensor, "X Y C K"],
        k: Float[Tensor, "X Z S K"],
        v: Float[Tensor, "X Z S K"],
        bias: Float[Tensor, "#X #Y C S"],
        dropout: float,
    ) -> Float[Tensor, "X Y C K"]:
        """Return what the queries of each block read."""
        return attend_blocks(q, k, v, bias=bias, scale=self.scale, dropout=dropout, cap=self.score_cap)

    def blocks(self, length: int) -> TokenBlocks:
        return TokenBlocks.around(length, self.window, back=self.back, ahead=0 if self.causal else self.window)

    def block_bias(
        self, queries: Float[Tensor, "X Y C K"], context: Context, blocks: TokenBlocks, rows: int
    ) -> Float[Tensor, "#X #Y C S"]:
        """Return, for every block, the mask of its pairs with the position encoding's bias."""
        at, of = blocks.indices(queries.device)
        within = near(at, of, back=self.back, ahead=0 if self.causal else self.back)
        allowed = masked(within & (of >= 0) & (of < blocks.length), context, blocks, rows, causal=self.causal)
        positions = row_positions(context, blocks.length, rows, queries.device)
        query_positions, known = blocks.of_queries(positions).flatten(0, 1), blocks.of_keys(positions).flatten(0, 1)
        return score_bias(context.encoding, queries, query_positions, known, allowed, self.scale)

    def pattern(
        self, query_positions: Int[Tensor, "#B L"], key_positions: Int[Tensor, "#B M"], lengths: Int[Tensor, "#B L"]
    ) -> Bool[Tensor, "#B L M"]:
        del lengths
        return near(query_positions[:, :, None], key_positions[:, None, :], back=self.back, ahead=self.back)

    def room(self, max_length: int) -> int:
        return min(self.window, max_length)

    def num_pairs(self, length: int) -> int:
        return window_pairs(length, self.back, causal=self.causal)

    def num_scored(self, length: int) -> tuple[int, int]:
        blocks = self.blocks(length)
        return blocks.padded_length, blocks.padded_length * blocks.span

    def saved_elements(self, query: CostContext) -> tuple[int, int]:
        """Count queries and outputs of whole blocks, one padded copy of keys and values, and the mask of each block; if
        explicit, the keys and values of each block, and weights instead of masks."""
        blocks, groups = self.blocks(query.length), self.num_heads // self.num_kv_heads
        inner, kv = (heads * self.head_width for heads in (self.num_heads, self.num_kv_heads))
        if query.explicit_attention or self.score_cap is not None:
            scored = 2 * blocks.number * blocks.span * kv + self.num_heads * blocks.padded_length * blocks.span
            return (blocks.padded_length + query.length) * inner + scored, 0
        mask = max(query.biased_heads, groups) * blocks.padded_length * blocks.span
        merged = query.length * inner if groups > 1 else 0
        saved = 2 * blocks.padded_length * inner + 2 * blocks.padded_keys * kv + mask + merged
        return saved, blocks.padded_length * self.num_heads

    def costs(self, query: CostContext) -> Costs:
        """Return the costs of attention within the windows, and what capped scores save."""
        blocks, groups = self.blocks(query.length), self.num_heads // self.num_kv_heads
        queries, keys = blocks.padded_length * self.num_heads, blocks.number * blocks.span * self.num_kv_heads
        saved = self.saved_by_cap(
            query,
            pairs=queries * blocks.span,
            scored=(queries + keys) * self.head_width,
            masked=blocks.padded_length * max(query.biased_heads, groups),
        )
        return super().costs(query) + Costs(activation_bytes=saved)


def required_window(window: int) -> int:
    if window < 1:
        raise UsageError(f"window={window} lets no token look anywhere: choose 1 or more")
    return window


def differ_by_row(context: Context, *, causal: bool) -> bool:
    """Return whether rows need masks or biases of their own; causal rows keep away from padding, which is on the
    right."""
    biases = context.encoding is not None and context.encoding.biases_scores
    return biases or context.segments is not None or (context.valid is not None and not causal)


def masked(
    within: Bool[Tensor, "N C S"], context: Context, blocks: TokenBlocks, rows: int, *, causal: bool
) -> Bool[Tensor, "X 1 C S"]:
    """Return the pairs of each block that padding and documents allow; one mask per block, for each of `rows`."""
    allowed = within.expand(rows, -1, -1, -1)
    if context.valid is not None and not causal:
        allowed = allowed & blocks.of_keys(context.valid)[:, :, None]
    if context.segments is not None:
        same = blocks.of_queries(context.segments)[..., None] == blocks.of_keys(context.segments)[:, :, None]
        allowed = allowed & same
    return allowed.flatten(0, 1)[:, None]


def row_positions(context: Context, length: int, rows: int, device: torch.device) -> Int[Tensor, "R L"]:
    """Return the positions of the tokens, in as many rows as there are masks."""
    positions = torch.arange(length, device=device)[None] if context.positions is None else context.positions
    return positions[:rows].expand(rows, -1)


def window_pairs(length: int, back: int, *, causal: bool) -> int:
    """Return the number of keys that all queries of a row find within `back` tokens before them, and after them if not
    causal."""
    reach = max(0, min(back, length - 1))
    before = reach * length - reach * (reach + 1) // 2
    return length + before * (1 if causal else 2)
