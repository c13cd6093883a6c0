"""A feed-forward of many experts, of which every token uses a few (Shazeer et al. 2017,
https://arxiv.org/abs/1701.06538), with the losses that keep them balanced (Fedus et al. 2021,
https://arxiv.org/abs/2101.03961) and their scores small (Zoph et al. 2022, https://arxiv.org/abs/2202.08906)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headtohead.components.block_parts import FeedForward
from headtohead.components.checkpointing import is_recomputing
from headtohead.components.component import Context
from headtohead.components.costs import CostContext, Costs
from headtohead.components.feedforwards import Activation, DenseFeedForward
from headtohead.components.precision import at_least_float32, without_autocast
from headtohead.components.training_hooks import Balance, HasAuxiliaryLoss, OneDevice
from headtohead.components.without_memory import has_values
from headtohead.errors import UsageError
from headtohead.field_group import FieldGroup
from headtohead.ranges import Multiple, NotNegative, Positive, Width

_SHOWN = 16
"""The most experts whose loads are shown one by one; more are summarised by the largest and the smallest load."""


@dataclass(frozen=True)
class Routing(FieldGroup):
    """The way of tokens to their experts: how many there are, which room each has, and which losses balance them."""

    num_experts: Width = 8
    """Experts of a layer."""
    experts_per_token: Width = 2
    capacity: Positive | None = None
    renormalise: bool = True
    balance: Balance = "batch"
    balance_weight: NotNegative = 0.01
    """Weight of the loss that spreads tokens evenly over experts; 0: none."""
    z_weight: NotNegative = 0.001
    """Weight of the loss that keeps the router's logits small; 0: none."""

    def check(self) -> None:
        """Raise UsageError where a token has more experts than there are, or an expert has no room."""
        if not 1 <= self.experts_per_token <= self.num_experts:
            raise UsageError(
                f"experts_per_token={self.experts_per_token} must be between 1 and num_experts={self.num_experts}: "
                "change either"
            )
        if self.capacity is not None and not self.capacity > 0:
            raise UsageError(f"capacity={self.capacity} leaves experts no room: choose above 0, such as 1.25, or null")


@dataclass(frozen=True)
class ExpertRoutes:
    """The experts of each token in the order of choice: its first, its second ..."""

    experts: Int[Tensor, "N k"]
    weights: Float[Tensor, "N k"]
    scores: Float[Tensor, "N E"]
    """The router's logits."""


@dataclass(frozen=True)
class ExpertLoad:
    """The number of routes to each expert, over all tokens that shares and capacity count."""

    counts: Int[Tensor, "k E"]
    """The counts by choice."""
    before: Int[Tensor, "k E"]
    """Those that find room before this device's first token."""

    @property
    def by_expert(self) -> Int[Tensor, " E"]:
        return self.counts.sum(0)


class RoutedExperts(FeedForward, HasAuxiliaryLoss):
    """The sum of the chosen experts' outputs, each times its weight; which experts these are, subclasses say.

    `capacity` limits how many tokens an expert takes in training, as a multiple of an equal share, and drops the rest:
    then a token's output depends on those before it in the batch. Evaluation drops nothing. `balance` selects the
    tokens over which an expert's share is computed.
    """

    no_mup_rule = "its router needs rules of its own (https://arxiv.org/abs/2508.09752)"
    router_bias: ClassVar[bool] = False

    @abstractmethod
    def __init__(self, d_model: int, routing: Routing, make_expert: Callable[[], DenseFeedForward]) -> None:
        """A subclass says how one of its experts is made."""
        super().__init__()
        routing.check()
        self.d_model, self.routing, self.balance = d_model, routing, routing.balance
        self.num_experts, self.experts_per_token = routing.num_experts, routing.experts_per_token
        self.renormalise = routing.renormalise
        self.router = nn.Linear(d_model, self.num_experts, bias=self.router_bias)
        self.experts = nn.ModuleList(make_expert() for _ in range(self.num_experts))
        self._demand: ExpertLoad | None = None
        self._loss: Tensor | None = None
        self._loads: Tensor | None = None
        self._dropped: Tensor | None = None

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        tokens = x.flatten(0, 1)
        routes = self.route(tokens)
        has_room = None
        if self.training:
            requests = self._requests(routes, context)
            demand = self._total_demand(requests)
            has_room = None if self.routing.capacity is None else self._within_capacity(requests, demand)
            self._note(routes, demand, context)
        return self._mixed(tokens, routes, has_room, context).view_as(x)

    def route(self, tokens: Float[Tensor, "N D"]) -> ExpertRoutes:
        """Return the most likely experts of every token, weighted by their probabilities among all, or among the
        chosen."""
        scores = self.scores(tokens)
        weights, experts = scores.softmax(-1).topk(self.experts_per_token, dim=-1)
        if self.renormalise:
            weights = weights / weights.sum(-1, keepdim=True)
        return ExpertRoutes(experts, weights, scores)

    def scores(self, tokens: Float[Tensor, "N D"]) -> Float[Tensor, "N E"]:
        """Return the router's logits in full precision, since small differences decide."""
        exact, bias = at_least_float32(tokens.dtype), self.router.bias
        with without_autocast(tokens):
            return F.linear(tokens.to(exact), self.router.weight.to(exact), None if bias is None else bias.to(exact))

    def _mixed(
        self, tokens: Float[Tensor, "N D"], routes: ExpertRoutes, has_room: Bool[Tensor, "N k"] | None, context: Context
    ) -> Float[Tensor, "N D"]:
        """Sort tokens by expert, so that each expert is one product, and mix the outputs."""
        chosen, weights = routes.experts.flatten(), routes.weights.to(tokens.dtype).flatten()
        order = chosen.argsort(stable=True)
        if has_room is not None:
            order = order[has_room.flatten()[order]] if has_values(order) else order[: self._filled(len(order))]
        counts = self._counts(chosen[order])
        token = order // self.experts_per_token
        parts = tokens[token].split(counts)
        outputs = [expert(part[None], context)[0] for expert, part in zip(self.experts, parts, strict=True)]
        outputs_by_route = torch.cat(outputs) * weights[order, None]
        return torch.zeros_like(tokens).index_add(0, token, outputs_by_route.to(tokens.dtype))

    def _counts(self, chosen: Int[Tensor, " N"]) -> list[int]:
        """Return the number of routes to each expert: of shapes alone, where nobody chose, equal shares, which a graph
        that others run would have forever."""
        if torch.compiler.is_exporting():
            raise UsageError("how many tokens each expert takes depends on their values, which a graph cannot follow")
        if not has_values(chosen):
            return [len(part) for part in chosen.tensor_split(self.num_experts)]
        counts: list[int] = chosen.bincount(minlength=self.num_experts).tolist()
        return counts

    def _filled(self, routes: int) -> int:
        """Return how many of so many routes find room where all experts are asked alike."""
        assert self.routing.capacity is not None
        return min(routes, self.num_experts * math.ceil(self.routing.capacity * routes / self.num_experts))

    def _requests(self, routes: ExpertRoutes, context: Context) -> Int[Tensor, "k N E"]:
        """Return 1 where a token requests an expert; padding requests none."""
        requests = F.one_hot(routes.experts.T, self.num_experts)
        return requests if context.valid is None else requests * context.valid.flatten()[:, None]

    def _total_demand(self, requests: Int[Tensor, "k N E"]) -> ExpertLoad:
        """Return the demand of all devices; a recomputed pass does not gather it again."""
        if is_recomputing() and self._demand is not None:
            return self._demand
        devices = self.devices if self.balance == "batch" else OneDevice()
        by_device = devices.gathered(requests.sum(1))
        counts = by_device.sum(0)
        # First choices before second ones, and then the order of tokens.
        before = counts.cumsum(0) - counts + by_device[: devices.rank].sum(0)
        self._demand = ExpertLoad(counts, before)
        return self._demand

    def _room(self, demand: ExpertLoad) -> Int[Tensor, ""]:
        """Return how many tokens an expert takes."""
        assert self.routing.capacity is not None
        return (self.routing.capacity * demand.counts.sum().double() / self.num_experts).ceil().long()

    def _within_capacity(self, requests: Int[Tensor, "k N E"], demand: ExpertLoad) -> Bool[Tensor, "N k"]:
        """Return a mask of the routes within capacity."""
        position = requests.cumsum(1) + demand.before[:, None]
        return ((position <= self._room(demand)) * requests).sum(-1).T.bool()

    def _note(self, routes: ExpertRoutes, demand: ExpertLoad, context: Context) -> None:
        """Record the losses of this pass, and its figures."""
        scores = routes.scores
        if context.valid is not None and has_values(context.valid):
            scores = scores[context.valid.flatten()]
        loads, num_tokens = demand.by_expert, demand.counts[0].sum().clamp(min=1)
        shares = loads.to(scores.dtype) / (num_tokens * self.experts_per_token)
        balance = self.num_experts * (shares * scores.softmax(-1).sum(0)).sum()
        loss = self.routing.balance_weight * balance + self.routing.z_weight * scores.logsumexp(-1).square().sum()
        loss = loss / num_tokens
        if is_recomputing():  # of the same pass as before, which must compute the same
            return
        self._loss = loss
        lost = 0 * loads[:1] if self.routing.capacity is None else (loads - self._room(demand)).clamp(min=0).sum()[None]
        self._loads = loads if self._loads is None else self._loads + loads
        self._dropped = lost if self._dropped is None else self._dropped + lost

    @property
    def takes_statistics(self) -> bool:
        return bool(self.routing.balance_weight or self.routing.z_weight or self.routing.capacity)

    def take_loss(self) -> Tensor | None:
        loss, self._loss = self._loss, None
        return loss

    def take_figures(self) -> dict[str, float]:
        """Return every expert's share of the routes (1 / num_experts each when balanced), and the share that was
        dropped."""
        if self._loads is None or self._dropped is None:
            return {}
        total = max(1, int(self._loads.sum()))
        shares = (self._loads / total).tolist()
        figures = {f"load_{number}": share for number, share in enumerate(shares)}
        if self.num_experts > _SHOWN:
            figures = {"load_largest": max(shares), "load_smallest": min(shares)}
        if self.routing.capacity is not None:
            figures["dropped"] = float(self._dropped) / total
        self._loads = self._dropped = None
        return figures

    def costs(self, query: CostContext) -> Costs:
        """Return a token's own costs: the router, and the experts that it visits."""
        n, k, width = query.length, self.experts_per_token, query.bytes_per_element
        one_expert = cast(DenseFeedForward, self.experts[0])
        met = one_expert.costs(replace(query, length=n * k))
        routing = Costs.of(
            self.router,
            forward_flops=2 * n * self.d_model * self.num_experts,
            activation_bytes=n * self.d_model * width + 4 * n * (3 * self.num_experts + k + 2),
        )
        # Outputs before and after their weights, the weights, and where each came from and goes to.
        mixing = Costs(activation_bytes=n * k * ((2 * self.d_model + 1) * width + 3 * 8))
        total = met + routing + mixing
        one = met.parameters
        return replace(
            total,
            parameters=routing.parameters + self.num_experts * one,
            active_parameters=routing.parameters + k * one,
        )


class MixtureOfExperts(RoutedExperts):
    """The sum of the chosen experts' outputs, each times its weight."""

    def __init__(
        self,
        d_model: int,
        *,
        dropout: float = 0.0,
        routing: Routing = Routing(),
        multiple: Multiple = 4.0,
        activation: Activation = "gelu",
        gated: bool = False,
        two_thirds: bool = False,
        bias: bool = True,
    ) -> None:
        make_expert = partial(
            DenseFeedForward,
            d_model,
            dropout=dropout,
            multiple=multiple,
            activation=activation,
            gated=gated,
            two_thirds=two_thirds,
            bias=bias,
        )
        super().__init__(d_model, routing, make_expert)
