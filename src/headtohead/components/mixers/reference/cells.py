"""What the slow twins of recurrent networks share: a plain loop over time, and the two products of a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

Cell = Callable[[Tensor, tuple[Tensor, ...]], tuple[Tensor, ...]]
"""The next states, the first of them the output, from a token and the states before."""


@dataclass(frozen=True)
class Products:
    """W x + b and U h + c, all gates side by side."""

    of_token: Float[Tensor, "B E"]
    of_state: Float[Tensor, "B E"]


def products(kernel: nn.RNNBase, x: Float[Tensor, "B D"], state: Float[Tensor, "B D"]) -> Products:
    """By the parameters of a kernel with one layer."""
    held = dict(kernel.named_parameters())
    of_token, of_state = x @ held["weight_ih_l0"].mT, state @ held["weight_hh_l0"].mT
    if kernel.bias:
        of_token, of_state = of_token + held["bias_ih_l0"], of_state + held["bias_hh_l0"]
    return Products(of_token, of_state)


def through_time(x: Float[Tensor, "B L D"], cell: Cell, *, num_states: int) -> Float[Tensor, "B L D"]:
    """The outputs of all tokens."""
    # A first state with a gradient, as a learned one would have, so that every token costs the same.
    first = torch.zeros_like(x[:, 0]).requires_grad_(torch.is_grad_enabled())
    states, outputs = (first,) * num_states, []
    for token in x.unbind(1):
        states = cell(token, states)
        outputs.append(states[0])
    return torch.stack(outputs, dim=1)
