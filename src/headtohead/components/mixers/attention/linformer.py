"""Linformer: keys and values are projected along the sequence to a few rows, which every query attends to (Wang et al.
2020, https://arxiv.org/abs/2006.04768).

Every row mixes all tokens, so that it has no causal form, and no score belongs to a pair of tokens that a position
encoding could rotate or bias.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.attention_maps import softmax_weights
from headtohead.components.component import Context, State, TensorParallelPlan
from headtohead.components.costs import CostContext, Costs
from headtohead.components.mixers.attention.fused_attention import attend
from headtohead.components.mixers.attention.softmax_attention import (
    AttentionHeads,
    SoftmaxAttention,
    merge_heads,
    split_heads,
)
from headtohead.components.mixers.attention.sparse_attention import apart, slots_of
from headtohead.components.sequence_ops.ragged_rows import find_document_starts
from headtohead.errors import UsageError
from headtohead.ranges import Width


class Linformer(SoftmaxAttention):
    """softmax(q (E k)^T / sqrt(K)) F v, with E and F of `rank` rows and a column for each position up to `max_length`.

    Padding counts for nothing: its keys and values are zero before they are projected.
    """

    follows_order = True
    no_mup_rule = "no rule is published for projections along the sequence"
    can_be_causal = False
    reads_scores = False
    reads_rotation = False
    without_pairs = "compares its queries with mixtures of all keys, which stand at no position"
    needs_length = True
    max_length: int
    sums_to_one = False

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        max_length: int | None,
        dropout: float = 0.0,
        rank: Width = 64,
        share_key_value: bool = False,
        bias: bool = True,
        output_bias: bool | None = None,
    ) -> None:
        if causal:
            raise UsageError(
                "mixer=linformer mixes all tokens before it looks at any, and cannot be causal: "
                "use another mixer, or model=encoder_only"
            )
        if max_length is None:
            raise UsageError(
                "mixer=linformer has a weight for every place and needs to know how many: set model.max_length"
            )
        if rank < 1:
            raise UsageError(f"rank={rank} leaves no keys to look at: choose 1 or more")
        heads = AttentionHeads(bias=bias, output_bias=output_bias)
        super().__init__(d_model, num_heads=num_heads, causal=False, dropout=dropout, heads=heads)
        self.rank, self.max_length = rank, max_length
        self.key_length = nn.Linear(max_length, rank, bias=False)
        self.value_length = None if share_key_value else nn.Linear(max_length, rank, bias=False)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        x, context, back = apart(x, context)
        q, k, v = self.query(x), self.key(x), self.value(x)
        if context.valid is not None:
            k, v = (t.masked_fill(~context.valid[..., None], 0.0) for t in (k, v))
        for_keys, for_values = self.along(x.shape[1])
        q, k, v = (split_heads(t, self.head_width) for t in (q, for_keys @ k, for_values @ v))
        dropout = self.dropout if self.training else 0.0
        return back(
            self.output(merge_heads(attend(q, k, v, bias=None, causal=False, scale=self.scale, dropout=dropout)))
        )

    def along(self, length: int) -> tuple[Float[Tensor, "R L"], Float[Tensor, "R L"]]:
        """Return E and F for so many positions."""
        if length > self.max_length:
            raise UsageError(
                f"a sequence of {length} tokens is longer than the max_length={self.max_length} that mixer=linformer "
                "has weights for: set model.max_length higher and retrain, or use mixer=longformer or bigbird"
            )
        keys = self.key_length.weight[:, :length]
        return keys, keys if self.value_length is None else self.value_length.weight[:, :length]

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """Return every token's effective weight, softmax(q (E k)^T) F, which is not a share and may be negative."""
        q, k, _ = self.project(x, replace(context, rotation=None))  # of mixers beside it
        positions, _ = slots_of(context, x)
        document_starts = find_document_starts(context)
        document = torch.zeros_like(positions) if document_starts is None else document_starts.long().cumsum(1)
        real = torch.ones_like(document, dtype=torch.bool) if context.valid is None else context.valid
        for_keys, for_values = self.along(int(positions.max()) + 1)
        weights = q.new_zeros(q.shape[0], self.num_heads, x.shape[1], x.shape[1])
        for number in range(int(document.max()) + 1):
            own = (document == number)[:, None]
            there = own & real[:, None]
            e, f = (t[:, positions].transpose(0, 1).masked_fill(~there, 0.0)[:, None] for t in (for_keys, for_values))
            shares = softmax_weights(q, e.to(k.dtype) @ k, bias=None, scale=self.scale)
            weights = weights + (shares.to(f.dtype) @ f).masked_fill(~own[..., None], 0.0)
        return weights.tril() if causal else weights

    def tensor_parallel_plan(self) -> TensorParallelPlan | None:
        return None

    def initial_state(self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype) -> State:
        del batch_size, max_length, device, dtype
        raise UsageError("mixer=linformer reads whole sequences and cannot decode step by step: use another mixer")

    def costs(self, query: CostContext) -> Costs:
        n, d, rank = query.length, self.d_model, self.rank
        return Costs.of(
            self,
            forward_flops=8 * n * d * d + 8 * n * rank * d,
            activation_bytes=(5 * n * d + 2 * rank * d) * query.bytes_per_element + 4 * n * self.num_heads,
        )
