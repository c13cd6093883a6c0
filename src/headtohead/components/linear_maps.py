"""Linear maps declare their role, so that an initialisation can treat each kind as its paper does."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.costs import CostContext, Costs
from headtohead.components.processor import reads_one_row_slowly

_BLOCK = 64
_FEW_ROWS, _MOST_ROWS = 3, 8
_SMALL, _LARGE = 2**17, 2**21


def linear(
    x: Float[Tensor, "*batch D"], weight: Float[Tensor, "E D"], bias: Float[Tensor, " E"] | None
) -> Float[Tensor, "*batch E"]:
    """Return x weight^T + bias. Where a CPU makes a few rows, as decoding does, most time goes into reading the
    weights, and on some processors they are read from memory two to three times as fast block by block."""
    # In a graph, which a question after the mode would break, the compiler chooses how weights are read.
    if not torch.compiler.is_compiling() and torch.is_inference_mode_enabled() and _reads_by_blocks(x, weight):
        return _linear_by_blocks(x, weight, bias)
    return F.linear(x, weight, bias)


def _reads_by_blocks(x: Float[Tensor, "*batch D"], weight: Float[Tensor, "E D"]) -> bool:
    """Return whether rows are so few, and weights so many, that blocks are faster (measured on AMD's Zen 5), and the
    matrix is plain."""
    (size, width), elements = weight.shape, weight.numel()
    most = _MOST_ROWS if elements >= _LARGE and size > width else _FEW_ROWS
    if elements < _SMALL or x.numel() > most * width or x.device.type != "cpu" or weight.dtype.itemsize < 4:
        return False
    return is_plain(weight) and weight.is_contiguous() and reads_one_row_slowly()


def is_plain(weight: Tensor) -> bool:
    """Return whether a weight is wholly here, as it is: neither divided among devices nor made of others."""
    return type(weight) in (Tensor, nn.Parameter)


def _linear_by_blocks(
    x: Float[Tensor, "*batch D"], weight: Float[Tensor, "E D"], bias: Float[Tensor, " E"] | None
) -> Float[Tensor, "*batch E"]:
    size, width = weight.shape
    num_blocks, rest = divmod(size, _BLOCK)
    if rest:
        first = _linear_by_blocks(x, weight[:-rest], None if bias is None else bias[:-rest])
        return torch.cat((first, F.linear(x, weight[-rest:], None if bias is None else bias[-rest:])), dim=-1)
    blocks, columns = weight.view(num_blocks, _BLOCK, width), x.reshape(-1, width).mT.expand(num_blocks, width, -1)
    y = blocks @ columns if bias is None else torch.baddbmm(bias.view(num_blocks, _BLOCK, 1), blocks, columns)
    return y.permute(2, 0, 1).reshape(*x.shape[:-1], size)


class DecodingMap:
    """A linear map, or several below each other, as decoding reads it: which way weights are read is decided once, not
    for each token."""

    def __init__(self, weight: Float[Tensor, "E D"], bias: Float[Tensor, " E"] | None) -> None:
        """Take the weights, of which blocks are views."""
        self.weight, self.bias = weight, bias
        self.size, self.width = weight.shape
        has_blocks = self.size % _BLOCK == 0 and _reads_by_blocks(weight[:1], weight)
        self.blocks = weight.view(-1, _BLOCK, self.width) if has_blocks else None
        self.block_bias = bias.view(-1, _BLOCK, 1) if has_blocks and bias is not None else None

    def __call__(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch E"]:
        if self.blocks is None or x.numel() != self.width:
            return linear(x, self.weight, self.bias)
        # The kernel takes the one row for a matrix of columns by its last two strides.
        columns = x.contiguous().as_strided((len(self.blocks), self.width, 1), (0, 1, self.width))
        y = self.blocks @ columns if self.block_bias is None else torch.baddbmm(self.block_bias, self.blocks, columns)
        return y.view(*x.shape[:-1], self.size)

    def __deepcopy__(self, memo: object) -> DecodingMap:
        """Return itself: a copied state reads the same weights."""
        del memo
        return self


class LinearMap(nn.Linear):
    """A linear map that is fast where a few rows are decoded."""

    def forward(self, x: Float[Tensor, "*batch D"]) -> Float[Tensor, "*batch E"]:
        return linear(x, self.weight, self.bias)


class ScoreLinear(LinearMap):
    """Makes queries or keys."""


class ResidualLinear(LinearMap):
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


def linear_costs(num_inputs: int, num_outputs: int, parameters: int, query: CostContext) -> Costs:
    """Return the costs of one linear map, whose backward pass reads its inputs."""
    forward = 2 * num_inputs * num_outputs * query.length
    return Costs(
        parameters=parameters,
        active_parameters=parameters,
        forward_flops=forward,
        training_flops=3 * forward,
        activation_bytes=num_inputs * query.length * query.bytes_per_element,
    )
