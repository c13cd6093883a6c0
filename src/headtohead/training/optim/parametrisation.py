"""Derive the initialisation and the learning rate of each weight from a model's width: unchanged, or by maximal update,
under which the best learning rate of one width is that of all (Yang et al. 2022, Tensor Programs V,
https://arxiv.org/abs/2203.03466)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import nn
from torch.optim import SGD, Adam, Optimizer

from headtohead.architectures.architecture import Architecture
from headtohead.components.linear_maps import InputLinear, Readout
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention
from headtohead.components.mixers.attention.softmax_cross_attention import SoftmaxCrossAttention
from headtohead.errors import UsageError
from headtohead.ranges import Width
from headtohead.training.optim.elementwise_optimizers import Group, Lion
from headtohead.training.optim.muon import Muon

# The parameters of a model grow differently with its width, and this growth is all that a parametrisation must know of
# each.
#
# A matrix between hidden vectors grows in two dimensions, a table, a gain, a readout or a map of the data in one, a
# bias of logits in none (Yang et al. 2022, https://arxiv.org/abs/2203.03466, appendix B).


Growth = Literal[0, 1, 2]
"""The number of dimensions."""


def growths(model: nn.Module) -> dict[int, Growth]:
    """Return the growth of every parameter, by its id."""
    result: dict[int, Growth] = {}
    for module in model.modules():
        is_hidden = isinstance(module, nn.Linear) and not isinstance(module, InputLinear | Readout)
        for name, parameter in module.named_parameters(recurse=False):
            if isinstance(module, Readout) and name == "bias":
                result[id(parameter)] = 0
            else:
                result[id(parameter)] = 2 if is_hidden and name == "weight" else 1
    return result


def readouts(model: nn.Module) -> Iterator[Readout]:
    """Yield the layers that produce logits."""
    return (module for module in model.modules() if isinstance(module, Readout))


def width_of(model: Architecture) -> int:
    """Return the width of the vectors from which logits are computed."""
    for readout in readouts(model):
        return readout.weight.shape[1]
    raise UsageError(f"{type(model).__name__} has no head of ours, and so no width: use parametrisation=standard")


Exponents = Mapping[Growth, float]
"""The exponents by the number of dimensions that grow: the power of the width that a learning rate is multiplied by."""
_ENTRYWISE: Exponents = {2: -1.0, 1: 0.0, 0: 0.0}
"""The exponents of optimizers whose steps do not know how large a gradient is: Adam, AdamW (table 8), Lion (Yang and
Littwin 2023, https://arxiv.org/abs/2308.01814)."""
_SGD: Exponents = {2: 0.0, 1: 1.0, 0: 0.0}
_ORTHOGONAL: Exponents = {2: 0.0, 1: 0.0, 0: 0.0}
"""The exponents of steps whose largest singular value is that of the rate, at any width (Yang et al. 2023,
https://arxiv.org/abs/2310.17813)."""
_ORTHOGONAL_AS_ADAMW: Exponents = {2: -0.5, 1: 0.0, 0: 0.0}
"""The exponents of steps whose largest singular value is the rate times the root of the width."""


class Parametrisation(ABC):
    """A parametrisation changes a model after its initialisation, and an optimizer after its construction."""

    scales: ClassVar[bool] = True
    """Whether anything depends on the width beyond what is written."""

    @abstractmethod
    def apply(self, model: Architecture) -> None:
        """Starts and multipliers."""

    @abstractmethod
    def scale_rates(self, optimizer: Optimizer, model: Architecture) -> None:
        """Learning rates, by group."""


@dataclass(frozen=True)
class Standard(Parametrisation):
    """Weights start as the initialisation says, and learn as the optimizer says."""

    scales = False

    def apply(self, model: Architecture) -> None:
        del model

    def scale_rates(self, optimizer: Optimizer, model: Architecture) -> None:
        del optimizer, model


@dataclass(frozen=True)
class MaximalUpdate(Parametrisation):
    """Table 8 of the paper, relative to a base: at its width everything is as the standard has it."""

    base_width: Width
    """The width that the learning rate was, or will be, tuned at."""
    base_head_width: Width
    """That of a head there; heads may become more or wider."""

    @torch.no_grad()
    def apply(self, model: Architecture) -> None:
        """Hidden matrices start smaller by the root of the width, logits are divided by the width, and scores by the
        width of a head instead of its root."""
        grown = self._grown(model)
        if grown != 1.0:
            dimensions = growths(model)
            for parameter in model.parameters():
                if dimensions[id(parameter)] == 2:
                    parameter.mul_(grown**-0.5)
            for readout in readouts(model):
                readout.multiplier = 1.0 / grown
        for module in model.modules():
            if isinstance(module, SoftmaxAttention | SoftmaxCrossAttention):
                module.scale *= (self.base_head_width / module.head_width) ** 0.5

    def scale_rates(self, optimizer: Optimizer, model: Architecture) -> None:
        """Make a group for each way to grow; what weight decay takes off in a step is the same at every width."""
        grown = self._grown(model)
        if grown == 1.0:
            return
        dimensions = growths(model)
        groups: list[Group] = []
        for group in optimizer.param_groups:
            exponents = _exponents(optimizer, group)
            for number, exponent in exponents.items():
                parameters = [parameter for parameter in group["params"] if dimensions[id(parameter)] == number]
                if parameters:
                    groups.append({**group, "params": parameters, **_scaled(group, grown, number, exponent)})
        optimizer.param_groups[:] = groups

    def _grown(self, model: Architecture) -> float:
        return width_of(model) / self.base_width


def _scaled(group: Mapping[str, Any], grown: float, number: Growth, exponent: float) -> dict[str, float]:
    """Gradients of what grows become smaller as the width becomes larger, and Adam's eps with them (Everett et al.
    2024, https://arxiv.org/abs/2407.05872)."""
    factor = grown**exponent
    scaled = {"lr": group["lr"] * factor, "weight_decay": group["weight_decay"] / factor}
    if "eps" in group and number > 0:
        scaled["eps"] = group["eps"] / grown
    return scaled


def _exponents(optimizer: Optimizer, group: Mapping[str, object]) -> Exponents:
    if group.get("orthogonal"):
        return _ORTHOGONAL_AS_ADAMW if group["scale"] == "match_adamw" else _ORTHOGONAL
    if isinstance(optimizer, SGD):
        return _SGD
    if isinstance(optimizer, Adam | Lion | Muon):
        return _ENTRYWISE
    raise UsageError(
        f"optimizer={type(optimizer).__name__} has no published rule for parametrisation=mup: use adamw, adam, lion, "
        "sgd or muon, or parametrisation=standard"
    )
