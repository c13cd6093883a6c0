"""Linear maps declare their role, so that an initialisation can treat each kind as its paper does."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.costs import CostQuery, Costs
from headtohead.components.processor import reads_one_row_slowly

_FEW_OUTPUTS, _MANY_OUTPUTS, _BLOCK = 2, 4096, 256


class ScoreLinear(nn.Linear):
    """Makes queries or keys."""


class ResidualLinear(nn.Linear):
    """Ends a branch: its output is added to the residual stream."""


class InputLinear(nn.Linear):
    """Reads the data itself, whose size does not change with the model's width."""


class Readout:
    """Makes logits, whose number does not change with the model's width; holds a `weight`, perhaps a `bias`."""

    weight: Tensor
    multiplier: float = 1.0
    """The factor by which its inputs are multiplied before the product, which a parametrisation sets."""

    def scaled(self, x: Tensor) -> Tensor:
        return x if self.multiplier == 1.0 else x * self.multiplier


class ReadoutLinear(nn.Linear, Readout):
    """Logits of classes."""

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... C"]:
        return super().forward(self.scaled(x))


def linear_costs(num_inputs: int, num_outputs: int, parameters: int, query: CostQuery) -> Costs:
    """Return the costs of one linear map, whose backward pass reads its inputs."""
    forward = 2 * num_inputs * num_outputs * query.length
    return Costs(
        parameters=parameters,
        active_parameters=parameters,
        forward_flops=forward,
        training_flops=3 * forward,
        activation_bytes=num_inputs * query.length * query.bytes_per_element,
    )


def logits_of(
    features: Float[Tensor, "... D"], weight: Float[Tensor, "V D"], bias: Float[Tensor, " V"] | None
) -> Float[Tensor, "... V"]:
    """Return features weight^T + bias. When one row is computed on a CPU, nearly all time goes into reading the weights
    of a large vocabulary, and on some processors they are read twice as fast block by block."""
    size, width = weight.shape
    rows, is_exact = features.numel() // width, weight.dtype.itemsize >= 4
    writes = torch.is_inference_mode_enabled() and features.device.type == "cpu"
    if rows > _FEW_OUTPUTS or size < _MANY_OUTPUTS or not (writes and is_exact and reads_one_row_slowly()):
        return F.linear(features, weight, bias)
    full = size // _BLOCK * _BLOCK
    blocks, flat = weight[:full].unflatten(0, (-1, _BLOCK)), features.reshape(rows, width)
    first = torch.bmm(blocks, flat.mT.expand(len(blocks), -1, -1)).flatten(0, 1).mT
    logits = torch.cat((first, F.linear(flat, weight[full:])), dim=1)
    return (logits if bias is None else logits + bias).view(*features.shape[:-1], size)
