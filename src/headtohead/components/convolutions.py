"""Convolutions over images and over texts know the size of their input images, and so their costs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.block_parts import NormFactory
from headtohead.components.component import Component, Context, Grid
from headtohead.components.costs import CostContext, Costs
from headtohead.components.feedforwards import KEEPS_OWN_OUTPUT, Activation, activation_of
from headtohead.errors import UsageError


class ImageConvolution(Component):
    """norm(conv(x)), with the resolution of the input, or with stride 2 half of it."""

    def __init__(
        self,
        num_inputs: int,
        num_outputs: int,
        grid: Grid,
        *,
        norm: NormFactory,
        kernel: int = 3,
        stride: int = 1,
        reads_images: bool = False,
    ) -> None:
        super().__init__()
        check_kernel(kernel, usual=3)
        self.conv = nn.Conv2d(num_inputs, num_outputs, kernel, stride, padding=kernel // 2, bias=False)
        self.norm = norm(num_outputs)
        self.grid_before, self.reads_images = grid, reads_images
        rows, columns = ((side - 1) // stride + 1 for side in grid)
        self.grid = (rows, columns)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D R S"]:
        y = self.conv(x)
        output: Tensor = self.norm(y.flatten(2).mT, Context()).mT.unflatten(-1, y.shape[2:])
        return output

    def costs(self, query: CostContext) -> Costs:
        """Return the costs per image, whatever the query's length; images need no gradient, so that backward costs one
        forward."""
        positions, positions_before = self.grid[0] * self.grid[1], self.grid_before[0] * self.grid_before[1]
        forward = 2 * self.conv.weight.numel() * positions
        saved = self.conv.in_channels * positions_before * query.bytes_per_element
        convolved = Costs.of(self.conv, forward_flops=forward, activation_bytes=saved)
        if self.reads_images:
            convolved = replace(convolved, training_flops=2 * forward)
        return convolved + replace(self.norm.costs(replace(query, length=positions)), state_elements=0)


class ImageLayer(Component):
    """One layer of a network for images."""

    keeps_input: bool
    """Whether its activation saves its input for the backward pass; else it saves its output."""

    @property
    @abstractmethod
    def grid(self) -> Grid:
        """Return the rows and columns of the output."""


class ConvolutionLayer(ImageLayer):
    """act(norm(conv(x)))."""

    def __init__(self, convolution: ImageConvolution, *, activation: Activation) -> None:
        super().__init__()
        self.convolution, self.act = convolution, activation_of(activation)
        self.keeps_input = activation not in KEEPS_OWN_OUTPUT

    @property
    def grid(self) -> Grid:
        return self.convolution.grid

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D R S"]:
        return self.act(self.convolution(x))

    def costs(self, query: CostContext) -> Costs:
        saved = num_elements(self.convolution) * query.bytes_per_element if self.keeps_input else 0
        return self.convolution.costs(query) + Costs(activation_bytes=saved)


class ResidualConvolutions(ImageLayer):
    """act(x + conv(act(conv(x)))), each with its norm; where the shape changes, x goes through a 1 x 1 convolution (He
    et al. 2016, https://arxiv.org/abs/1512.03385)."""

    def __init__(
        self,
        num_inputs: int,
        num_outputs: int,
        grid: Grid,
        *,
        norm: NormFactory,
        kernel: int,
        stride: int,
        activation: Activation,
    ) -> None:
        super().__init__()
        self.act, self.keeps_input = activation_of(activation), activation not in KEEPS_OWN_OUTPUT
        self.first = ImageConvolution(num_inputs, num_outputs, grid, norm=norm, kernel=kernel, stride=stride)
        self.second = ImageConvolution(num_outputs, num_outputs, self.first.grid, norm=norm, kernel=kernel)
        changes = stride != 1 or num_inputs != num_outputs
        self.shortcut = (
            ImageConvolution(num_inputs, num_outputs, grid, norm=norm, kernel=1, stride=stride) if changes else None
        )

    @property
    def grid(self) -> Grid:
        return self.second.grid

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D R S"]:
        stream = x if self.shortcut is None else self.shortcut(x)
        return self.act(stream + self.second(self.act(self.first(x))))

    def costs(self, query: CostContext) -> Costs:
        """Return the costs; the shortcut reads the tensor that the first convolution saves."""
        saved = 2 * num_elements(self.second) * query.bytes_per_element if self.keeps_input else 0
        costs = self.first.costs(query) + self.second.costs(query) + Costs(activation_bytes=saved)
        if self.shortcut is None:
            return costs
        rows, columns = self.shortcut.grid_before
        again = self.shortcut.conv.in_channels * rows * columns * query.bytes_per_element
        return costs + self.shortcut.costs(query) + Costs(activation_bytes=-again)


class TextConvolutions(Component):
    """Convolutions of several widths side by side, each max-pooled over the text (Kim 2014,
    https://arxiv.org/abs/1408.5882). Every window begins at a real token; zeros follow the end."""

    def __init__(self, d_model: int, widths: tuple[int, ...], num_filters: int) -> None:
        super().__init__()
        if not widths or min(widths) < 1:
            raise UsageError(f"model.widths={list(widths)} must be numbers of words, each at least 1: usually [3,4,5]")
        self.convolutions = nn.ModuleList(nn.Conv1d(d_model, num_filters, width) for width in widths)
        self.d_model, self.widths, self.num_filters = d_model, widths, num_filters

    @property
    def width(self) -> int:
        """Return the output width."""
        return len(self.widths) * self.num_filters

    def forward(self, x: Float[Tensor, "B L D"], valid: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B E"]:
        if valid is not None:
            x = x * valid[..., None]
        most = []
        for width, convolution in zip(self.widths, self.convolutions, strict=True):
            result = convolution(F.pad(x.mT, (0, width - 1)))
            if valid is not None:
                result = result.masked_fill(~valid[:, None, :], float("-inf"))
            most.append(result.max(-1).values)
        return F.relu(torch.cat(most, dim=-1))

    def costs(self, query: CostContext) -> Costs:
        """Return the costs: autograd saves, for each width, the text padded by the width less one, and the maxima with
        their positions."""
        n, d, filters = query.length, self.d_model, self.num_filters
        texts = sum(n + width - 1 for width in self.widths) * d * query.bytes_per_element
        return Costs.of(
            self,
            forward_flops=2 * n * d * filters * sum(self.widths),
            activation_bytes=texts + self.width * (8 + query.bytes_per_element),
        )


def check_kernel(kernel: int, *, usual: int) -> None:
    """Raise UsageError where a kernel is as far from its middle on one side as on no other."""
    if kernel < 1 or kernel % 2 == 0:
        raise UsageError(f"kernel={kernel} is not odd: choose an odd number, usually {usual}")


def num_elements(convolution: ImageConvolution) -> int:
    """Return the number of output elements for one image."""
    return convolution.conv.out_channels * convolution.grid[0] * convolution.grid[1]


def stages(
    d_model: int, num_layers: int, num_stages: int, depths: Sequence[int] | None = None
) -> Iterator[tuple[int, int]]:
    """Yield the width and the stride of every layer: stages of these depths, or of about equal depth, the last as wide
    as the model, each before it half as wide; every stage but the first begins by halving the image."""
    if num_stages < 1 or num_stages > num_layers:
        raise UsageError(
            f"model.num_stages={num_stages} must be at least 1 and at most model.num_layers={num_layers}, since a "
            "stage has at least one layer"
        )
    if d_model % 2 ** (num_stages - 1):
        raise UsageError(
            f"model.num_stages={num_stages} halves model.d_model={d_model} at each stage before the last: choose a "
            f"multiple of {2 ** (num_stages - 1)}, or fewer stages"
        )
    for stage, depth in enumerate(stage_depths(num_layers, num_stages, depths)):
        width = d_model // 2 ** (num_stages - 1 - stage)
        yield width, 1 if stage == 0 else 2
        yield from ((width, 1) for _ in range(depth - 1))


def stage_depths(num_layers: int, num_stages: int, depths: Sequence[int] | None) -> list[int]:
    """Return the number of layers of every stage: those given, or about equal ones."""
    if depths is None:
        by_layer = [layer * num_stages // num_layers for layer in range(num_layers)]
        return [by_layer.count(stage) for stage in range(num_stages)]
    if len(depths) != num_stages or sum(depths) != num_layers or min(depths) < 1:
        raise UsageError(
            f"model.depths={list(depths)} must be a number of layers for each of model.num_stages={num_stages} stages, "
            f"each at least 1 and model.num_layers={num_layers} in sum: change one of the three, or leave it null for "
            "stages of about equal depth"
        )
    return list(depths)
