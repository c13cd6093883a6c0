"""A feed-forward of many experts, of which every token meets a few (Shazeer et al. 2017,
https://arxiv.org/abs/1701.06538), with the losses that keep them balanced (Fedus et al. 2021,
https://arxiv.org/abs/2101.03961) and their scores small (Zoph et al. 2022, https://arxiv.org/abs/2202.08906)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headtohead.components.auxiliary import HasAuxiliaryLoss
from headtohead.components.checkpointing import is_recomputing
from headtohead.components.contracts import Context, CostQuery, Costs, FeedForward
from headtohead.components.feedforwards import Activation, DenseFeedForward
from headtohead.errors import UsageError

_SHOWN = 16
"""More experts than these are told of by the largest and the smallest load."""


@dataclass(frozen=True)
class Routes:
    """Which expert each token goes to, by choice: its first, its second ..."""

    experts: Int[Tensor, "N k"]
    weights: Float[Tensor, "N k"]
    scores: Float[Tensor, "N E"]
    """What the router said."""


class MixtureOfExperts(FeedForward, HasAuxiliaryLoss):
    """The sum of the chosen experts' outputs, each times its weight.

    `capacity` limits how many tokens an expert takes in training, as a multiple of an equal share, and drops what is
    beyond it: then a token's output depends on those before it in the batch. Evaluation drops nothing.
    """

    no_width_rule = "its router needs rules of its own (https://arxiv.org/abs/2508.09752)"

    def __init__(
        self,
        d_model: int,
        *,
        dropout: float = 0.0,
        num_experts: int = 8,
        experts_per_token: int = 2,
        capacity: float | None = None,
        renormalise: bool = True,
        balance_weight: float = 0.01,
        z_weight: float = 0.001,
        multiple: float = 4.0,
        activation: Activation = "gelu",
        gated: bool = False,
        two_thirds: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if not 1 <= experts_per_token <= num_experts:
            raise UsageError(
                f"experts_per_token={experts_per_token} must be between 1 and num_experts={num_experts}: change either"
            )
        if capacity is not None and not capacity > 0:
            raise UsageError(f"capacity={capacity} leaves experts no room: choose above 0, such as 1.25, or null")
        self.d_model, self.num_experts, self.experts_per_token = d_model, num_experts, experts_per_token
        self.capacity, self.renormalise = capacity, renormalise
        self.balance_weight, self.z_weight = balance_weight, z_weight
        self.router = nn.Linear(d_model, num_experts, bias=False)
        self.experts = nn.ModuleList(
            DenseFeedForward(
                d_model,
                dropout=dropout,
                multiple=multiple,
                activation=activation,
                gated=gated,
                two_thirds=two_thirds,
                bias=bias,
            )
            for _ in range(num_experts)
        )
        self._loss: Tensor | None = None
        self._loads: Tensor | None = None
        self._dropped: Tensor | None = None

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        tokens = x.flatten(0, 1)
        routes = self.route(tokens)
        real = None if context.valid is None else context.valid.flatten()
        kept = self._kept(routes, real)
        if self.training:
            self._note(routes, kept, real)
        return self._mixed(tokens, routes, kept, context).view_as(x)

    def route(self, tokens: Float[Tensor, "N D"]) -> Routes:
        """The likeliest experts of every token, weighted by their probabilities among all, or among the chosen."""
        exact = torch.promote_types(tokens.dtype, torch.float32)
        with torch.autocast(tokens.device.type, enabled=False):  # small differences of scores decide
            scores = F.linear(tokens.to(exact), self.router.weight.to(exact))
        weights, experts = scores.softmax(-1).topk(self.experts_per_token, dim=-1)
        if self.renormalise:
            weights = weights / weights.sum(-1, keepdim=True)
        return Routes(experts, weights, scores)

    def _mixed(
        self, tokens: Float[Tensor, "N D"], routes: Routes, kept: Bool[Tensor, "N k"] | None, context: Context
    ) -> Float[Tensor, "N D"]:
        """Tokens sorted by expert, so that each expert is one product."""
        chosen, weights = routes.experts.flatten(), routes.weights.to(tokens.dtype).flatten()
        order = chosen.argsort(stable=True)
        if kept is not None:
            order = order[kept.flatten()[order]]
        counts = chosen[order].bincount(minlength=self.num_experts).tolist()
        token = order // self.experts_per_token
        parts = tokens[token].split(counts)
        outputs = [expert(part[None], context)[0] for expert, part in zip(self.experts, parts, strict=True)]
        outputs_by_route = torch.cat(outputs) * weights[order, None]
        return torch.zeros_like(tokens).index_add(0, token, outputs_by_route.to(tokens.dtype))

    def _kept(self, routes: Routes, real: Bool[Tensor, " N"] | None) -> Bool[Tensor, "N k"] | None:
        """Which routes find room: first choices before second ones, and then the order of tokens; None: all."""
        if self.capacity is None or not self.training:
            return None
        wanted = torch.ones_like(routes.experts, dtype=torch.bool) if real is None else real[:, None]
        wanted = wanted.expand_as(routes.experts)
        room = math.ceil(self.capacity * int(wanted.sum()) / self.num_experts)
        queue = F.one_hot(routes.experts.T, self.num_experts) * wanted.T[..., None]
        place = queue.flatten(0, 1).cumsum(0).view_as(queue).gather(-1, routes.experts.T[..., None])[..., 0]
        return wanted & place.T.le(room)

    def _note(self, routes: Routes, kept: Bool[Tensor, "N k"] | None, real: Bool[Tensor, " N"] | None) -> None:
        """Keeps the losses of this pass, and what there is to tell of it."""
        experts, scores = routes.experts, routes.scores
        if real is not None:
            experts, scores = experts[real], scores[real]
        counts = experts.flatten().bincount(minlength=self.num_experts)
        shares = counts / max(1, experts.numel())
        balance = self.num_experts * (shares * scores.softmax(-1).mean(0)).sum()
        loss = self.balance_weight * balance + self.z_weight * scores.logsumexp(-1).square().mean()
        if is_recomputing():  # of the same pass as before
            return
        self._loss = loss
        lost = torch.zeros_like(counts[:1]) if kept is None else experts.numel() - kept.sum()[None]
        self._loads = counts if self._loads is None else self._loads + counts
        self._dropped = lost if self._dropped is None else self._dropped + lost

    def take_loss(self) -> Tensor | None:
        loss, self._loss = self._loss, None
        return loss

    def take_figures(self) -> dict[str, float]:
        """Every expert's share of the routes (1 / num_experts each when balanced), and the share that was dropped."""
        if self._loads is None or self._dropped is None:
            return {}
        total = max(1, int(self._loads.sum()))
        shares = (self._loads / total).tolist()
        figures = {f"load_{number}": share for number, share in enumerate(shares)}
        if self.num_experts > _SHOWN:
            figures = {"load_largest": max(shares), "load_smallest": min(shares)}
        if self.capacity is not None:
            figures["dropped"] = float(self._dropped) / total
        self._loads = self._dropped = None
        return figures

    def costs(self, query: CostQuery) -> Costs:
        """A token's own: the router, and the experts that it meets."""
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
