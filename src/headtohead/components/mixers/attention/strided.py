"""Strided attention of the Sparse Transformer: a window, optionally dilated, and every stride-th token (Child et al.
2019, https://arxiv.org/abs/1904.10509)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.components.component import PLAIN, Context
from headtohead.components.costs import CostContext
from headtohead.components.mixers.attention.sliding_window import required_window
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads
from headtohead.components.mixers.attention.sparse_attention import SparseAttention, positions_of, score_bias
from headtohead.components.mixers.attention.windowed_attention import TokenBlocks
from headtohead.components.precision import at_least_float32
from headtohead.components.sequence_ops.score_masks import as_bias
from headtohead.errors import UsageError
from headtohead.ranges import Length


class Strided(SparseAttention):
    """One softmax over `window` tokens, `dilation` apart, and over all tokens at a multiple of `stride` from the query.

    Causal: the query and those before it; bidirectional: `window` on each side. A stride near the square root of the
    length makes the cost grow with its power 1.5. Tokens are sorted by the remainders of their positions, so that a
    token's keys are adjacent, and each part is a batch of dense products.
    """

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        window: Length = 32,
        stride: Length = 32,
        dilation: Length = 1,
        bias: bool = True,
        output_bias: bool | None = None,
    ) -> None:
        heads = AttentionHeads(bias=bias, output_bias=output_bias)
        super().__init__(d_model, num_heads=num_heads, causal=causal, dropout=dropout, heads=heads)
        if stride < 1 or dilation < 1:
            raise UsageError(f"stride={stride} and dilation={dilation} must be distances: choose 1 or more")
        self.window, self.stride, self.dilation = required_window(window), stride, dilation
        self.back = window - 1 if causal else window

    def attend(
        self,
        q: Float[Tensor, "B H L K"],
        k: Float[Tensor, "B H L K"],
        v: Float[Tensor, "B H L K"],
        context: Context,
    ) -> Float[Tensor, "B H L K"]:
        length = q.shape[2]
        near, far = self.blocks_near(length), self.blocks_far(length)
        scores = torch.cat(
            [
                ordered(blocks.queries(grouped(q, apart)) @ blocks.keys(grouped(k, apart)).mT, length, apart)
                for blocks, apart in ((near, self.dilation), (far, self.stride))
            ],
            dim=-1,
        )
        weights = self.softmax(self.scale * scores, q, context)
        parts = weights.to(v.dtype).split((near.span, far.span), dim=-1)
        of_near, of_far = (
            ordered(blocks.queries(grouped(part, apart)) @ blocks.keys(grouped(v, apart)), length, apart)
            for part, blocks, apart in zip(parts, (near, far), (self.dilation, self.stride), strict=True)
        )
        return of_near + of_far

    def softmax(
        self, scores: Float[Tensor, "B H L T"], q: Float[Tensor, "B H L K"], context: Context
    ) -> Float[Tensor, "B H L T"]:
        """Return the softmax over the existing keys of both parts, each counted once."""
        scores = scores + self.list_bias(q, context)
        exact = at_least_float32(scores.dtype)
        if context.valid is None and context.segments is None:  # then every query sees itself at least
            weights = scores.softmax(-1, dtype=exact)
        else:
            empty = (scores == float("-inf")).all(-1, keepdim=True)
            weights = scores.masked_fill(empty, 0.0).softmax(-1, dtype=exact).masked_fill(empty, 0.0)
        return F.dropout(weights, self.dropout, self.training)

    def blocks_near(self, length: int) -> TokenBlocks:
        """Return blocks of the tokens that share one remainder by the dilation."""
        reach = -(-length // self.dilation)
        return TokenBlocks.around(reach, self.window, back=self.back, ahead=0 if self.causal else self.back)

    def blocks_far(self, length: int) -> TokenBlocks:
        """Return one block of all tokens that share one remainder by the stride."""
        reach = -(-length // self.stride)
        return TokenBlocks.around(reach, reach, back=0, ahead=0)

    def key_lists(self, length: int, device: torch.device) -> tuple[Int[Tensor, "L T"], Bool[Tensor, "L T"]]:
        """Return, for every query, the positions of its keys in the row, near ones first, and a mask of those it
        attends to."""
        positions = torch.arange(length, device=device)
        lists = []
        for blocks, apart in ((self.blocks_near(length), self.dilation), (self.blocks_far(length), self.stride)):
            _, of = blocks.indices(device)
            inside = (positions // apart) // blocks.size
            lists.append(of[inside, 0] * apart + (positions % apart)[:, None])
        of_near, of_far = lists
        at = positions[:, None]
        once = torch.cat((self.is_near(at, of_near), ~self.is_near(at, of_far)), dim=1)
        of = torch.cat(lists, dim=1)
        there = once & (of >= 0) & (of < length)
        return of.clamp(0, length - 1), there & (of <= at) if self.causal else there

    def list_bias(self, q: Float[Tensor, "B H L K"], context: Context) -> Float[Tensor, "#B #H L T"]:
        batch, _, length, _ = q.shape
        of, there = self.key_lists(length, q.device)
        allowed = there[None]
        if context.valid is not None and not self.causal:
            allowed = allowed & context.valid[:, of]
        if context.segments is not None:
            allowed = allowed & (context.segments[:, :, None] == context.segments[:, of])
        if context.encoding is None or not context.encoding.biases_scores:
            return as_bias(allowed[:, None], q.dtype)
        rows = len(allowed) if len(allowed) > 1 else batch
        positions = positions_of(context, q.transpose(1, 2)).expand(rows, -1)
        one_by_one = q.transpose(1, 2).flatten(0, 1).unsqueeze(2)  # every query is a row, with keys of its own
        query_positions, known = positions.flatten()[:, None], positions[:, of].flatten(0, 1)
        allowed = allowed.expand(rows, -1, -1).flatten(0, 1)[:, None, None]
        bias = score_bias(context.encoding, one_by_one, query_positions, known, allowed, self.scale)
        y: Tensor = bias[:, :, 0].unflatten(0, (rows, length)).transpose(1, 2)
        return y

    def is_near(self, at: Tensor, of: Tensor) -> Tensor:
        distance = (at - of).abs()
        return (distance % self.dilation == 0) & (distance <= self.back * self.dilation)

    def kernel_in_use(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> str:
        """Return plain operations: its two parts share one softmax, which no fused kernel splits."""
        del device, dtype
        return PLAIN

    def pattern(
        self, query_positions: Int[Tensor, "#B L"], key_positions: Int[Tensor, "#B M"], lengths: Int[Tensor, "#B L"]
    ) -> Bool[Tensor, "#B L M"]:
        del lengths
        at, of = query_positions[:, :, None], key_positions[:, None, :]
        return self.is_near(at, of) | ((at - of) % self.stride == 0)

    def num_pairs(self, length: int) -> int:
        reach = range(self.dilation, self.back * self.dilation + 1, self.dilation)
        distances = {*reach, *range(self.stride, length, self.stride)}
        apart = sum(length - distance for distance in distances if distance < length)
        count: int = length + apart * (1 if self.causal else 2)
        return count

    def num_scored(self, length: int) -> tuple[int, int]:
        return length, length * (self.blocks_near(length).span + self.blocks_far(length).span)

    def saved_elements(self, query: CostContext) -> tuple[int, int]:
        """Count queries, keys, values and weights of both parts as they are multiplied, all weights in one, and
        outputs."""
        n, inner = query.length, self.d_model
        saved, num_keys = n * inner, 0
        for blocks, apart in ((self.blocks_near(n), self.dilation), (self.blocks_far(n), self.stride)):
            queries, keys = apart * blocks.padded_length, apart * blocks.number * blocks.span
            saved += (queries + 2 * keys) * inner + queries * blocks.span * self.num_heads
            num_keys += blocks.span
        return saved, n * num_keys * self.num_heads


def grouped(x: Float[Tensor, "B H L K"], apart: int) -> Float[Tensor, "X H A K"]:
    """Group the tokens whose positions share a remainder into rows."""
    num_groups = -(-x.shape[2] // apart)
    padded = F.pad(x, (0, 0, 0, num_groups * apart - x.shape[2]))
    y: Tensor = padded.unflatten(2, (num_groups, apart)).permute(0, 3, 1, 2, 4).flatten(0, 1)
    return y


def ordered(y: Float[Tensor, "X H N C K"], length: int, apart: int) -> Float[Tensor, "B H L K"]:
    """Return blocks of grouped tokens to their original order."""
    per_group = -(-length // apart)
    rows = y.flatten(2, 3)[:, :, :per_group].unflatten(0, (-1, apart))
    output: Tensor = rows.permute(0, 2, 3, 1, 4).flatten(2, 3)[:, :, :length]
    return output
