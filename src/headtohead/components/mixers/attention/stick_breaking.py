"""Stick-breaking attention (Tan et al. 2024, https://arxiv.org/abs/2410.17980): from the latest key backwards, each
takes its share of what those after it left, so that order needs no positions."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headtohead.components.attention_maps import scores_of
from headtohead.components.component import PLAIN, Context
from headtohead.components.costs import CostContext, Costs
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention
from headtohead.components.sequence_ops.score_masks import causal_mask


class StickBreaking(SoftmaxAttention):
    """sum over s < t of b_ts prod over s < r < t of (1 - b_tr) v_s, with b = sigmoid(q k^T / sqrt(K)); what is left of
    the stick after the first key is the token's own, as in the authors' language models."""

    follows_order = True
    can_be_bidirectional = False
    no_mup_rule = "no rule is published for scores of a sigmoid"

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        heads: AttentionHeads = AttentionHeads(),
    ) -> None:
        super().__init__(d_model, num_heads=num_heads, causal=causal, dropout=dropout, heads=heads)

    @property
    def saves_shared_bias(self) -> bool:
        return False

    def kernel_in_use(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> str:
        """Return that all weights are made: torch has no kernel for them."""
        del device, dtype
        return PLAIN

    def read(
        self,
        q: Float[Tensor, "B H L E"],
        k: Float[Tensor, "B G M E"],
        v: Float[Tensor, "B G M K"],
        *,
        bias: Float[Tensor, "#B #H #L M"] | None,
        causal: bool,
        dropout: float,
    ) -> Float[Tensor, "B H L K"]:
        del causal  # sticks are broken backwards, whatever the mask
        weights = F.dropout(self.weights(q, k, bias).to(v.dtype), dropout)
        return weights @ v.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1)

    def weights(
        self,
        q: Float[Tensor, "B H L E"],
        k: Float[Tensor, "B G M E"],
        bias: Float[Tensor, "#B #H #L M"] | None,
    ) -> Float[Tensor, "B H L M"]:
        """Return the shares of the last L of M tokens, by sums of logs in float32 at least."""
        length, num_keys = q.shape[2], k.shape[2]
        k = k.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1)
        scores = scores_of(q, k, bias=bias, scale=self.scale, cap=None)
        not_before = ~causal_mask(length, num_keys, q.device).tril(num_keys - length - 1)
        lost = F.softplus(scores)  # -log(1 - b)
        passed = lost.masked_fill(not_before, 0.0)
        through = passed.flip(-1).cumsum(-1).flip(-1)  # from this key on
        taken = (scores - lost - (through - passed)).masked_fill(not_before, float("-inf")).exp()
        own = (-passed.sum(-1)).exp()
        return taken + F.pad(torch.diag_embed(own), (num_keys - length, 0))

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """Return the shares; there are none without the mask, which `causal` asks for."""
        del causal
        return super().attention(x, context)

    def costs(self, query: CostContext) -> Costs:
        """Return the costs of softmax attention, less the score that a token would give itself."""
        full, inner = super().costs(query), self.num_heads * self.head_width
        forward = full.forward_flops - 2 * query.length * inner
        training = 3 * forward - 2 * inner  # the first token reads itself, whatever its query
        return replace(full, forward_flops=forward, training_flops=training)

    def saved_bytes(self, query: CostContext) -> int:
        """Count the tokens, queries, keys, values and merged heads; scores, what keys take and the weights; the mask,
        and what is left for each token."""
        n, heads, bytes_each = query.length, self.num_heads, query.bytes_per_element
        exact = max(4, bytes_each)
        wide, inner = heads * self.head_width, heads * self.value_width
        normed, divisors = self.saved_by_norms(n)
        saved = n * (self.d_model + 2 * inner) + normed
        pairs = heads * n * n * (2 * exact + bytes_each) + n * n
        return saved * bytes_each + 2 * n * wide * exact + pairs + n * heads * exact + 4 * divisors
