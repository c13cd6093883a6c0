"""Softmax attention whose values are mixed with those of the first layer, so that deep layers still see the tokens
themselves (Zhou et al. 2024, https://arxiv.org/abs/2410.17897)."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.component import Context, TensorParallelPlan
from headtohead.components.costs import CostContext, Costs
from headtohead.components.first_values import MixesFirstValues
from headtohead.components.linear_maps import DecodingMap
from headtohead.components.mixers.attention.fused_attention import takes_groups
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention
from headtohead.errors import UsageError
from headtohead.ranges import Probability


class ValueResidual(SoftmaxAttention, MixesFirstValues):
    """softmax(q k^T / sqrt(K)) (a v_1 + b v) with v_1 the values of the first layer and learned shares a and b, which
    sum to 1 at the start. In the first layer it is softmax attention."""

    no_mup_rule = "no rule is published for the shares of its values"

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        first_share: Probability = 0.5,
        heads: AttentionHeads = AttentionHeads(),
    ) -> None:
        super().__init__(d_model, num_heads=num_heads, causal=causal, dropout=dropout, heads=heads)
        self.first_share = first_share
        self.shares: nn.Parameter | None = None

    def follow(self, first: MixesFirstValues) -> None:
        assert isinstance(first, SoftmaxAttention)
        ours, theirs = ((one.num_kv_heads, one.head_width) for one in (self, first))
        if ours != theirs:
            raise UsageError(
                f"num_kv_heads={ours[0]} and head_width={ours[1]} of a layer cannot mix values with the first, which "
                f"has num_kv_heads={theirs[0]} and head_width={theirs[1]}: give both the same of each"
            )
        self.shares = nn.Parameter(torch.empty(2, device=self.value.weight.device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.shares is not None:
            with torch.no_grad():
                self.shares[0], self.shares[1] = self.first_share, 1.0 - self.first_share

    def values_like(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B G L K"]:
        return x.new_empty(len(x), self.num_kv_heads, x.shape[1], self.head_width)

    def values_bytes(self, query: CostContext) -> int:
        return query.length * self.num_kv_heads * self.head_width * query.bytes_per_element

    def project(
        self, x: Float[Tensor, "B L D"], context: Context, fused: DecodingMap | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries, keys and mixed values by head; states of decoding hold the mixed ones."""
        q, k, v = super().project(x, context, fused)
        if self.shares is None:
            if context.values_out is not None:
                context.values_out.append(v)
            return q, k, v
        assert context.first_values is not None, "the stack passes the values of its first layer to the others"
        first, own = self.shares.unbind()
        return q, k, first * context.first_values + own * v

    def tensor_parallel_plan(self) -> TensorParallelPlan | None:
        """Return None: the shares would have a gradient from each device's heads."""
        return None

    def costs(self, query: CostContext) -> Costs:
        """Return the costs of softmax attention; what is mixed is saved beside its result, and so is what is given
        where the kernel saves a copy of it."""
        full = super().costs(query)
        is_saved_again = self.shares is not None or (self.gives_values and self._is_copied(query))
        return Costs.of(
            self,
            forward_flops=full.forward_flops,
            state_elements=full.state_elements,
            activation_bytes=full.activation_bytes + is_saved_again * self.values_bytes(query),
        )

    def _is_copied(self, query: CostContext) -> bool:
        """Return whether the kernel reads values that were repeated for each head."""
        if self.num_kv_heads == self.num_heads:
            return False
        has_bias = query.biased_heads > 0
        takes = takes_groups(query.device, query.bytes_per_element, has_bias=has_bias)
        return query.explicit_attention or not takes
