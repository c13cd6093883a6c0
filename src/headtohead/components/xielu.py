"""A feed-forward with xIELU, the integral of an ELU with two learned slopes (Huang 2024,
https://arxiv.org/abs/2411.13010)."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headtohead.components.component import Component, TensorParallelPlan
from headtohead.components.costs import CostContext, Costs
from headtohead.components.feedforwards import DenseFeedForward
from headtohead.errors import UsageError
from headtohead.ranges import Multiple, Positive


class Xielu(Component):
    """a_p x^2 + b x above zero, and a_n (exp(x) - 1 - x) + b x below; a_p > 0 and a_n > b are learned."""

    def __init__(self, width: int, initial_alpha_p: float, initial_alpha_n: float, beta: float) -> None:
        super().__init__()
        self.width = width
        self.initial_alpha_p, self.initial_alpha_n, self.beta = initial_alpha_p, initial_alpha_n, beta
        self.alpha_p, self.alpha_n = nn.Parameter(torch.empty(1)), nn.Parameter(torch.empty(1))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.constant_(self.alpha_p, _before_softplus(self.initial_alpha_p))
        nn.init.constant_(self.alpha_n, _before_softplus(self.initial_alpha_n - self.beta))

    def forward(self, x: Tensor) -> Tensor:
        alpha_p = F.softplus(self.alpha_p)
        alpha_n = self.beta + F.softplus(self.alpha_n)
        above, below = x.clamp(min=0), x.clamp(max=0)
        return alpha_p * above.square() + alpha_n * (torch.expm1(below) - below) + self.beta * x

    def costs(self, query: CostContext) -> Costs:
        """Return the costs; autograd saves the input, what lies above zero, its square, the exponential and what a_n
        multiplies."""
        return Costs.of(self, activation_bytes=5 * query.length * self.width * query.bytes_per_element)


def _before_softplus(value: float) -> float:
    return value + math.log(-math.expm1(-value))


class XieluFeedForward(DenseFeedForward):
    """A feed-forward down(xielu(up(x))), each layer with slopes of its own."""

    no_mup_rule = "no rule is published for its learned slopes"
    act: Xielu

    def __init__(
        self,
        d_model: int,
        *,
        dropout: float = 0.0,
        multiple: Multiple = 4.0,
        bias: bool = True,
        initial_alpha_p: Positive = 0.8,
        initial_alpha_n: Positive = 0.8,
        beta: Positive = 0.5,
    ) -> None:
        super().__init__(d_model, dropout=dropout, multiple=multiple, bias=bias)
        if initial_alpha_n <= beta:
            raise UsageError(
                f"initial_alpha_n={initial_alpha_n} is not above beta={beta}, below which xIELU's slope cannot fall: "
                "set initial_alpha_n higher, or beta lower"
            )
        self.act = Xielu(self.inner, initial_alpha_p, initial_alpha_n, beta)

    def tensor_parallel_plan(self) -> TensorParallelPlan | None:
        """Keep the layer whole: each part of its channels would have a gradient of the slopes of its own."""
        return None

    def costs(self, query: CostContext) -> Costs:
        """Return the costs of a dense layer with what xIELU saves, in place of the input alone."""
        costs, own = super().costs(query), self.act.costs(query).activation_bytes
        shared = query.length * self.inner * query.bytes_per_element
        return replace(costs, activation_bytes=costs.activation_bytes - shared + own)
