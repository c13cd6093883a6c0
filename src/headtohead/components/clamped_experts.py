"""Experts with clamped gates and a router with a bias, as in gpt-oss (OpenAI 2025, https://arxiv.org/abs/2508.10925)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.costs import CostContext, Costs
from headtohead.components.feedforwards import DenseFeedForward
from headtohead.components.mixture_of_experts import RoutedExperts, Routing
from headtohead.ranges import Multiple, Positive


class ClampedFeedForward(DenseFeedForward):
    """down(g sigmoid(s g) (u + 1)) of a gate g at most a limit, and of an u within it on both sides."""

    no_mup_rule = "no rule is published for its limit"

    def __init__(
        self,
        d_model: int,
        *,
        dropout: float = 0.0,
        multiple: Multiple = 4.0,
        two_thirds: bool = False,
        bias: bool = True,
        limit: Positive = 7.0,
        sharpness: Positive = 1.702,  # s, with which g sigmoid(s g) is close to a GELU
    ) -> None:
        super().__init__(
            d_model,
            dropout=dropout,
            multiple=multiple,
            activation="silu",
            gated=True,
            two_thirds=two_thirds,
            bias=bias,
        )
        self.limit, self.sharpness = limit, sharpness

    def product(self, gate: Float[Tensor, "B L E"], up: Float[Tensor, "B L E"]) -> Float[Tensor, "B L E"]:
        gate, up = gate.clamp(max=self.limit), up.clamp(-self.limit, self.limit)
        return gate * torch.sigmoid(self.sharpness * gate) * (up + 1)

    def costs(self, query: CostContext) -> Costs:
        """Return the costs of a gated layer, and three more inner tensors that autograd saves: what was clamped, and
        the gate's share."""
        costs = super().costs(query)
        more = 3 * query.length * self.inner * query.bytes_per_element
        return replace(costs, activation_bytes=costs.activation_bytes + more)


class ClampedExperts(RoutedExperts):
    """The sum of the chosen experts' outputs, each times its weight; the experts are gated, within a limit."""

    router_bias = True

    def __init__(
        self,
        d_model: int,
        *,
        dropout: float = 0.0,
        routing: Routing = Routing(),
        multiple: Multiple = 4.0,
        two_thirds: bool = False,
        bias: bool = True,
        limit: Positive = 7.0,
        sharpness: Positive = 1.702,
    ) -> None:
        make_expert = partial(
            ClampedFeedForward,
            d_model,
            dropout=dropout,
            multiple=multiple,
            two_thirds=two_thirds,
            bias=bias,
            limit=limit,
            sharpness=sharpness,
        )
        super().__init__(d_model, routing, make_expert)
