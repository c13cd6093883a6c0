"""Differential attention (Ye et al. 2024, https://arxiv.org/abs/2410.05258): what one head attends to by mistake, the
head beside it subtracts, so that weights are sparse."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.component import Context, TensorParallelPlan
from headtohead.components.costs import CostContext, Costs
from headtohead.components.mixers.attention.fused_attention import attend, takes_groups
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention, merge_heads
from headtohead.components.precision import at_least_float32
from headtohead.errors import UsageError
from headtohead.ranges import Positive, Share

_START = 0.1
"""The standard deviation of the vectors that make lambda, as published."""


class DifferentialAttention(SoftmaxAttention):
    """(softmax(q_1 k_1^T / sqrt(K)) - l softmax(q_2 k_2^T / sqrt(K))) [v_1 v_2], normalised and times 1 - l_0, where
    head h of the first half and head h + H/2 make a pair and l = exp(a_1 b_1) - exp(a_2 b_2) + l_0.

    The paper lets l_0 grow with depth, from 0.2 to 0.8; here it is one number, which the paper found to do as well."""

    no_mup_rule = "no rule is published for the share that it subtracts"

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        heads: AttentionHeads = AttentionHeads(),
        subtracted: Share = 0.8,
        norm_eps: Positive = 1e-5,
    ) -> None:
        super().__init__(d_model, num_heads=num_heads, causal=causal, dropout=dropout, heads=heads)
        if self.num_heads % 2 or self.num_kv_heads % 2:
            raise UsageError(
                f"differential attention pairs heads, and num_heads={num_heads} with num_kv_heads={self.num_kv_heads} "
                "leaves one over: choose even numbers"
            )
        self.subtracted, self.norm_eps = subtracted, norm_eps
        self.lambdas = nn.Parameter(torch.empty(2, 2, self.head_width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the vectors whose products move lambda away from its start."""
        nn.init.normal_(self.lambdas, std=_START)

    def share(self) -> Float[Tensor, ""]:
        """Return lambda, the share of the second map that is subtracted, in float32 at least."""
        first, second = self.lambdas.to(at_least_float32(self.lambdas.dtype)).prod(1).sum(-1).exp()
        share: Tensor = first - second + self.subtracted
        return share

    def read(
        self,
        q: Float[Tensor, "B H L E"],
        k: Float[Tensor, "B G M E"],
        v: Float[Tensor, "B G M K"],
        *,
        bias: Float[Tensor, "#B #H #L M"] | None,
        causal: bool,
        dropout: float,
    ) -> Float[Tensor, "B P L W"]:
        """Return what every pair of heads reads, of both heads' values."""
        sides = (
            attend(q, k, values.repeat(1, 2, 1, 1), bias=bias, causal=causal, scale=self.scale, dropout=dropout)
            for values in v.chunk(2, dim=1)
        )
        first, second = torch.cat(tuple(sides), dim=-1).chunk(2, dim=1)
        return self._subtract(first, second)

    def _subtract(self, first: Float[Tensor, "B P L W"], second: Float[Tensor, "B P L W"]) -> Float[Tensor, "B P L W"]:
        """Return the normalised difference of what the two heads of every pair read."""
        y = first - self.share().to(second.dtype) * second
        return F.rms_norm(y, y.shape[-1:], eps=self.norm_eps) * (1.0 - self.subtracted)

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        """Return the output that these maps give, the second of each pair subtracted."""
        _, _, v = self.project(x, context)
        values = torch.cat(v.chunk(2, dim=1), dim=-1).repeat_interleave(self.num_heads // self.num_kv_heads, dim=1)
        first, second = (weights.to(v.dtype) @ values.repeat(1, 2, 1, 1)).chunk(2, dim=1)
        return self.project_output(merge_heads(self._subtract(first, second)), x)

    def tensor_parallel_plan(self) -> TensorParallelPlan | None:
        """Return None: a pair's heads are half the heads apart, and would be on two devices."""
        return None

    def costs(self, query: CostContext) -> Costs:
        """Return the costs of softmax attention whose values are twice as wide."""
        full, n, inner = super().costs(query), query.length, self.num_heads * self.head_width
        wider = n * (n + 1) * inner if self.causal else 2 * n * n * inner
        return Costs.of(
            self,
            forward_flops=full.forward_flops + wider,
            state_elements=full.state_elements,
            activation_bytes=self._saved_by_pairs(query),
        )

    def _saved_by_pairs(self, query: CostContext) -> int:
        """Count the tokens; what both calls of the kernel take and give; their outputs side by side, their difference,
        its norm and what is merged of it; lambda and its parts; and what norms save."""
        n, heads, groups = query.length, self.num_heads, self.num_kv_heads
        inner, has_bias = heads * self.head_width, query.biased_heads > 0
        after = n * (self.d_model + 4 * inner)
        of_four_bytes = n * heads // 2 + 2 * self.head_width + 3
        if query.explicit_attention:
            saved = after + 2 * (3 * n * inner + heads * n * n)
        else:
            takes = groups == heads or takes_groups(query.device, query.bytes_per_element, has_bias=has_bias)
            keys_and_values = 3 * groups * self.head_width if takes else 4 * inner
            saved, of_four_bytes = after + n * (3 * inner + keys_and_values), of_four_bytes + 2 * n * heads
        normed, divisors = self.saved_by_norms(n)
        return (saved + normed) * query.bytes_per_element + 4 * (of_four_bytes + divisors)
