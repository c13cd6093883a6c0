"""Fine-grained experts beside shared ones, which every token uses (Dai et al. 2024, https://arxiv.org/abs/2401.06066);
chosen by sigmoids, and balanced by biases of the choice instead of a loss (DeepSeek-V3, https://arxiv.org/abs/2412.19437).

Experts beside one that every token uses, as much as its gate says (Qwen team 2024,
https://qwenlm.github.io/blog/qwen-moe/; Qwen3-Next).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.checkpointing import is_recomputing
from headtohead.components.component import Context
from headtohead.components.costs import CostContext, Costs
from headtohead.components.feedforwards import Activation, DenseFeedForward
from headtohead.components.linear_maps import linear_costs
from headtohead.components.mixture_of_experts import ExpertLoad, ExpertRoutes, RoutedExperts, Routing
from headtohead.components.training_hooks import Balance, ChangesWithSteps
from headtohead.errors import UsageError
from headtohead.field_group import FieldGroup
from headtohead.ranges import Amount, Multiple, NotNegative, Positive, Width

_JUDGED = 2
"""The best experts of a group whose scores decide whether the group is chosen."""


@dataclass(frozen=True)
class BiasedRouting(FieldGroup):
    """The way of tokens to their experts: how many there are, how many all tokens share, and how fast biases follow the
    loads."""

    num_experts: Width = 8
    experts_per_token: Width = 2
    num_shared: Amount = 1
    num_groups: Width = 1
    """The groups of equal size that the experts are in."""
    groups_per_token: Width = 1
    """The groups that a token's experts are in: those whose two best experts have the largest sum."""
    capacity: Positive | None = None
    renormalise: bool = True
    scale: Positive = 1.0
    balance: Balance = "batch"
    bias_rate: NotNegative = 0.001

    def check(self) -> None:
        """Raise UsageError where groups are unequal or too small for their choice, or a token's hold too few
        experts."""
        size, rest = divmod(self.num_experts, self.num_groups)
        if rest:
            raise UsageError(
                f"num_groups={self.num_groups} must divide num_experts={self.num_experts} into equal groups: change "
                "either"
            )
        if not 1 <= self.groups_per_token <= self.num_groups:
            raise UsageError(
                f"groups_per_token={self.groups_per_token} must be between 1 and num_groups={self.num_groups}: change "
                "either"
            )
        if self.groups_per_token == self.num_groups:
            return
        if size < _JUDGED:
            raise UsageError(
                f"num_groups={self.num_groups} of num_experts={self.num_experts} hold one expert each, and groups are "
                f"chosen by their {_JUDGED} best: have fewer groups, or groups_per_token={self.num_groups}"
            )
        if self.experts_per_token > size * self.groups_per_token:
            raise UsageError(
                f"experts_per_token={self.experts_per_token} is more than groups_per_token={self.groups_per_token} "
                f"groups of {size} experts hold: raise groups_per_token"
            )

    def without_losses(self) -> Routing:
        """Return the same routing to the experts that are not shared."""
        return Routing(
            self.num_experts, self.experts_per_token, self.capacity, self.renormalise, self.balance, 0.0, 0.0
        )


class SharedExperts(RoutedExperts, ChangesWithSteps):
    """The sum of the shared experts' output and of the chosen experts' outputs, each times its weight.

    A token's experts are those with the largest sum of sigmoid and bias, of all or of the best groups; the weights are
    the sigmoids alone. After every optimizer step the bias of an expert rises by `bias_rate` if it had fewer tokens
    than the mean, else it falls.
    """

    float32_parameters: ClassVar[tuple[str, ...]] = ("choice_bias",)

    def __init__(
        self,
        d_model: int,
        *,
        dropout: float = 0.0,
        routing: BiasedRouting = BiasedRouting(),
        multiple: Multiple = 4.0,
        activation: Activation = "silu",
        gated: bool = True,
        two_thirds: bool = False,
        bias: bool = False,
    ) -> None:
        routing.check()
        make = partial(
            DenseFeedForward,
            d_model,
            dropout=dropout,
            activation=activation,
            gated=gated,
            two_thirds=two_thirds,
            bias=bias,
        )
        super().__init__(d_model, routing.without_losses(), partial(make, multiple=multiple))
        self.bias_rate, self.scale = routing.bias_rate, routing.scale
        self.num_groups, self.groups_per_token = routing.num_groups, routing.groups_per_token
        self.shared = make(multiple=routing.num_shared * multiple) if routing.num_shared else None
        self.register_buffer("choice_bias", torch.zeros(self.num_experts))
        self.register_buffer("loads_of_step", torch.zeros(self.num_experts, dtype=torch.long))
        self.choice_bias: Tensor
        self.loads_of_step: Tensor

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        routed = super().forward(x, context)
        return routed if self.shared is None else routed + self.shared(x, context)

    def route(self, tokens: Float[Tensor, "N D"]) -> ExpertRoutes:
        """Return the experts with the largest sigmoids and biases in the chosen groups, weighted by the sigmoids."""
        scores = self.scores(tokens)
        shares = scores.sigmoid()
        preferences = self._in_best_groups(shares.detach() + self.choice_bias)
        experts = preferences.topk(self.experts_per_token, dim=-1).indices
        weights = shares.gather(-1, experts)
        if self.renormalise:
            weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
        return ExpertRoutes(experts, self.scale * weights, scores)

    def _in_best_groups(self, preferences: Float[Tensor, "N E"]) -> Float[Tensor, "N E"]:
        """Return the preferences without those of experts outside a token's best groups."""
        if self.groups_per_token == self.num_groups:
            return preferences
        by_group: Tensor = preferences.unflatten(-1, (self.num_groups, -1))
        sums = by_group.topk(_JUDGED, dim=-1).values.sum(-1)
        best = sums.topk(self.groups_per_token, dim=-1).indices
        chosen = torch.zeros_like(sums, dtype=torch.bool).scatter(-1, best, True)
        return by_group.masked_fill(~chosen[..., None], -math.inf).flatten(-2)

    def _note(self, routes: ExpertRoutes, demand: ExpertLoad, context: Context) -> None:
        if not is_recomputing():
            self.loads_of_step += demand.by_expert
        super()._note(routes, demand, context)

    def begin_step(self, step: int, generator: torch.Generator) -> None:
        """Move the biases by the loads of the step before."""
        del step, generator
        loads = self.loads_of_step.to(self.choice_bias.dtype)
        self.choice_bias += self.bias_rate * (loads.mean() - loads).sign()
        self.loads_of_step.zero_()

    def costs(self, query: CostContext) -> Costs:
        """Return a token's own costs: the router, the experts that it visits, and the shared ones, which read what the
        router saves."""
        routed = super().costs(query)
        if self.shared is None:
            return routed
        shared, tokens = self.shared.costs(query), query.length * self.d_model * query.bytes_per_element
        return routed + replace(shared, activation_bytes=shared.activation_bytes - tokens)


class GatedSharedExpert(RoutedExperts):
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
        make = partial(
            DenseFeedForward,
            d_model,
            dropout=dropout,
            activation=activation,
            gated=gated,
            two_thirds=two_thirds,
            bias=bias,
        )
        super().__init__(d_model, routing, partial(make, multiple=multiple))
        self.shared = make(multiple=multiple if shared_multiple is None else shared_multiple)
        self.shared_gate = nn.Linear(d_model, 1, bias=False)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        y: Tensor = super().forward(x, context) + self.shared_gate(x).sigmoid() * self.shared(x, context)
        return y

    def costs(self, query: CostContext) -> Costs:
        """Return a token's own costs: the router, the experts that it visits, and the shared one with its gate, which
        read what the router saves; and the gate's output and the shared expert's, for their product."""
        shared, gate = self.shared.costs(query), linear_costs(self.d_model, 1, self.d_model, query)
        tokens = query.length * self.d_model * query.bytes_per_element
        product = tokens + query.length * query.bytes_per_element
        parts = shared.activation_bytes + gate.activation_bytes - 2 * tokens + product
        return super().costs(query) + replace(shared + gate, activation_bytes=parts)
