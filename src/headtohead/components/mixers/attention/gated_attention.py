"""Softmax attention whose heads' outputs every token gates channel by channel, which removes attention sinks and makes
the value-output map nonlinear (Qiu et al. 2025, https://arxiv.org/abs/2505.06708)."""

from __future__ import annotations

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from headtohead.components.component import TensorParallelPlan
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import LinearMap
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention


class GatedAttention(SoftmaxAttention):
    """(softmax(q k^T / sqrt(K)) v * sigmoid(x G)) O."""

    no_mup_rule = "no rule is published for the gate of its output"

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
        self.gate = LinearMap(d_model, num_heads * self.head_width, bias=heads.bias)

    def project_output(self, y: Float[Tensor, "B L E"], x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        output: Tensor = self.output(y * self.gate(x).sigmoid())
        return output

    def tensor_parallel_plan(self) -> TensorParallelPlan | None:
        """Return the plan of softmax attention, with the gates of a device's own heads."""
        own = super().tensor_parallel_plan()
        return None if own is None else replace(own, column_wise=(*own.column_wise, "gate"))

    def costs(self, query: CostContext) -> Costs:
        """Return the costs of softmax attention and of the gates: one more projection, the gates and the gated heads
        saved."""
        full, inner = super().costs(query), self.num_heads * self.head_width
        return Costs.of(
            self,
            forward_flops=full.forward_flops + 2 * query.length * self.d_model * inner,
            state_elements=full.state_elements,
            activation_bytes=full.activation_bytes + 2 * query.length * inner * query.bytes_per_element,
        )
