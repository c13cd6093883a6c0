"""Experts beside one that every token uses, as much as its gate says (Qwen team 2024,
https://qwenlm.github.io/blog/qwen-moe/; Qwen3-Next)."""

from __future__ import annotations

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.component import Context
from headtohead.components.costs import CostQuery, Costs
from headtohead.components.feedforwards import Activation, DenseFeedForward
from headtohead.components.linear_maps import linear_costs
from headtohead.components.mixture_of_experts import MixtureOfExperts, Routing
from headtohead.ranges import Multiple


class GatedSharedExpert(MixtureOfExperts):
    """The sum of the chosen experts' outputs, each times its weight, and of the shared expert's, times sigmoid(x g)."""

    def __init__(
        self,
        d_model: int,
        *,
        dropout: float = 0.0,
        routing: Routing = Routing(),
        multiple: Multiple = 4.0,
        shared_multiple: Multiple | None = None,
        activation: Activation = "silu",
        gated: bool = True,
        two_thirds: bool = False,
        bias: bool = False,
    ) -> None:
        super().__init__(
            d_model,
            dropout=dropout,
            routing=routing,
            multiple=multiple,
            activation=activation,
            gated=gated,
            two_thirds=two_thirds,
            bias=bias,
        )
        self.shared = DenseFeedForward(
            d_model,
            dropout=dropout,
            multiple=multiple if shared_multiple is None else shared_multiple,
            activation=activation,
            gated=gated,
            two_thirds=two_thirds,
            bias=bias,
        )
        self.shared_gate = nn.Linear(d_model, 1, bias=False)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        y: Tensor = super().forward(x, context) + self.shared_gate(x).sigmoid() * self.shared(x, context)
        return y

    def costs(self, query: CostQuery) -> Costs:
        """Return a token's own costs: the router, the experts that it visits, and the shared one with its gate, which
        read what the router saves; and the gate's output and the shared expert's, for their product."""
        shared, gate = self.shared.costs(query), linear_costs(self.d_model, 1, self.d_model, query)
        tokens = query.length * self.d_model * query.bytes_per_element
        product = tokens + query.length * query.bytes_per_element
        parts = shared.activation_bytes + gate.activation_bytes - 2 * tokens + product
        return super().costs(query) + replace(shared + gate, activation_bytes=parts)
