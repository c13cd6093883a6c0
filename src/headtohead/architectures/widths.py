"""How the parameters of a model grow with its width: the one thing that a parametrisation must know of each.

A matrix between hidden vectors grows in two dimensions, a table, a gain, a readout or a map of the data in one, a bias
of logits in none (Yang et al. 2022, https://arxiv.org/abs/2203.03466, appendix B).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from torch import nn

from headtohead.architectures.contracts import Architecture
from headtohead.components.linears import InputLinear, Readout
from headtohead.errors import UsageError

Growth = Literal[0, 1, 2]
"""The number of dimensions."""


def growths(model: nn.Module) -> dict[int, Growth]:
    """That of every parameter, by its id."""
    found: dict[int, Growth] = {}
    for module in model.modules():
        is_hidden = isinstance(module, nn.Linear) and not isinstance(module, InputLinear | Readout)
        for name, parameter in module.named_parameters(recurse=False):
            if isinstance(module, Readout) and name == "bias":
                found[id(parameter)] = 0
            else:
                found[id(parameter)] = 2 if is_hidden and name == "weight" else 1
    return found


def readouts(model: nn.Module) -> Iterator[Readout]:
    """What makes logits."""
    return (module for module in model.modules() if isinstance(module, Readout))


def width_of(model: Architecture) -> int:
    """That of the vectors which logits are made of."""
    for readout in readouts(model):
        return readout.weight.shape[1]
    raise UsageError(f"{type(model).__name__} has no head of ours, and so no width: use parametrisation=standard")
