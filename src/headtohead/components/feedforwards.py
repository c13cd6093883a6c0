"""The feed-forward part of a block: two linear maps with an activation between (https://arxiv.org/abs/1706.03762), or
three with a gate (Shazeer 2020, https://arxiv.org/abs/2002.05202)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.contracts import Context, CostQuery, Costs, Division, FeedForward
from headtohead.components.linears import ResidualLinear
from headtohead.errors import UsageError
from headtohead.ranges import Multiple


def squared_relu(x: Tensor) -> Tensor:
    """So et al. 2021, https://arxiv.org/abs/2109.08668."""
    return F.relu(x).square()


def gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "squared_relu"]
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "squared_relu": squared_relu,
}
_ROWS = 128
KEEPS_OWN_OUTPUT = {"relu", "sigmoid", "tanh"}
"""Activations whose backward pass reads their output; the others keep another tensor of the same size."""


def in_few_shapes(act: Callable[[Tensor], Tensor], rows: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
    """The activation of rows whose number differs from batch to batch. On a CPU torch keeps a kernel for each shape of
    a GELU, a thousand of them, strewn over the heap so that it cannot shrink (a gigabyte and more), so numbers are
    rounded up for it."""
    if rows.device.type != "cpu":
        return act(rows)
    return act(F.pad(rows, (0, 0, 0, -len(rows) % _ROWS)))[: len(rows)]


def activation_of(name: Activation) -> Callable[[Tensor], Tensor]:
    """The function of this name, or what names there are."""
    if name not in ACTIVATIONS:
        raise UsageError(f"activation={name} is unknown: choose one of {', '.join(sorted(ACTIVATIONS))}")
    return ACTIVATIONS[name]


class DenseFeedForward(FeedForward):
    """down(act(up(x))), or down(act(gate(x)) * up(x))."""

    no_width_rule = ""

    def __init__(
        self,
        d_model: int,
        *,
        dropout: float = 0.0,
        multiple: Multiple = 4.0,
        activation: Activation = "gelu",
        gated: bool = False,
        two_thirds: bool = False,
        bias: bool = True,
    ) -> None:
        super().__init__()
        inner = inner_width(d_model, multiple, two_thirds=two_thirds)
        self.d_model, self.inner, self.activation, self.dropout = d_model, inner, activation, dropout
        self.act = activation_of(activation)
        self.gate = nn.Linear(d_model, inner, bias=bias) if gated else None
        self.up = nn.Linear(d_model, inner, bias=bias)
        self.down = ResidualLinear(inner, d_model, bias=bias)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        del context
        hidden = self.act(self.up(x)) if self.gate is None else self.act(self.gate(x)) * self.up(x)
        y: Tensor = self.down(F.dropout(hidden, self.dropout) if self.training else hidden)
        return y

    def division(self) -> Division:
        by_output = ("up",) if self.gate is None else ("gate", "up")
        return Division(by_output, ("down",), most=self.inner, unit="inner channels")

    def costs(self, query: CostQuery) -> Costs:
        n, gated = query.length, self.gate is not None
        owns_output = self.activation in KEEPS_OWN_OUTPUT
        inner_tensors = (1 if owns_output else 2) + 2 * gated
        if self.dropout > 0:  # its noise, and what it lets through where that was shared with the activation
            inner_tensors += 2 if owns_output and not gated else 1
        return Costs.of(
            self,
            forward_flops=2 * n * self.d_model * self.inner * (3 if gated else 2),
            activation_bytes=n * (self.d_model + inner_tensors * self.inner) * query.bytes_per_element,
        )


class NoFeedForward(FeedForward):
    """A block without one, as those of Mamba (Gu and Dao 2023, https://arxiv.org/abs/2312.00752)."""

    no_width_rule = ""

    def __init__(self, d_model: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        del d_model, dropout

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        """What is added to the stream: nothing. Blocks leave it out."""
        del context
        return torch.zeros_like(x)

    def costs(self, query: CostQuery) -> Costs:
        del query
        return Costs()


def inner_width(d_model: int, multiple: float, *, two_thirds: bool) -> int:
    """multiple x width; times 2/3, to the nearest multiple of 8, so that a gated layer has as many parameters."""
    if two_thirds:
        return max(8, round(multiple * d_model * 2 / 3 / 8) * 8)
    return max(1, round(multiple * d_model))
