"""The layers of ConvNeXt (Liu et al. 2022, https://arxiv.org/abs/2201.03545): patches, blocks of a wide depthwise
convolution and an inverted bottleneck, and downsampling between stages."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.block_parts import Branch, Norm, NormFactory
from headtohead.components.component import Context, Grid
from headtohead.components.convolutions import ImageLayer, check_kernel
from headtohead.components.costs import CostContext, Costs
from headtohead.components.embeddings import PatchEmbedding
from headtohead.components.feedforwards import Activation, DenseFeedForward
from headtohead.errors import UsageError


class PatchStem(ImageLayer):
    """norm(patches): the image in squares that do not overlap, each a vector."""

    keeps_input = True

    def __init__(
        self, num_outputs: int, image_shape: tuple[int, int, int], patch_size: int, *, norm: NormFactory
    ) -> None:
        super().__init__()
        self.patches = PatchEmbedding(num_outputs, image_shape, patch_size)
        self.norm = norm(num_outputs)

    @property
    def grid(self) -> Grid:
        return self.patches.grid

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D R S"]:
        return _as_image(self.norm(self.patches(images), Context()), self.grid)

    def costs(self, query: CostContext) -> Costs:
        return self.patches.costs(query) + _norm_costs(self.norm, self.grid, query)


class Downsampling(ImageLayer):
    """conv(norm(x)) over squares of 2 x 2 that do not overlap; the last row or column of an odd grid is left out."""

    keeps_input = True

    def __init__(self, num_inputs: int, num_outputs: int, grid: Grid, *, norm: NormFactory) -> None:
        super().__init__()
        if min(grid) < 2:
            raise UsageError(
                f"model.num_stages halves the grid of patches between stages, and one of {grid[0]} x {grid[1]} cannot "
                "be halved: choose fewer stages, a smaller model.patch_size, or larger images"
            )
        self.norm = norm(num_inputs)
        self.conv = nn.Conv2d(num_inputs, num_outputs, 2, 2)
        self.grid_before = grid

    @property
    def grid(self) -> Grid:
        rows, columns = self.grid_before
        return rows // 2, columns // 2

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D R S"]:
        y: Tensor = self.conv(_as_image(self.norm(_as_tokens(x), Context()), self.grid_before))
        return y

    def costs(self, query: CostContext) -> Costs:
        rows, columns = self.grid
        before = self.grid_before[0] * self.grid_before[1]
        convolved = Costs.of(
            self.conv,
            forward_flops=2 * self.conv.weight.numel() * rows * columns,
            activation_bytes=self.conv.in_channels * before * query.bytes_per_element,
        )
        return convolved + _norm_costs(self.norm, self.grid_before, query)


class ConvNextBlock(ImageLayer):
    """x + a f(norm(conv(x))): a convolution of each channel by itself, a feed-forward at every position, and a learned
    vector a that starts small (layer scale, Touvron et al. 2021, https://arxiv.org/abs/2103.17239)."""

    keeps_input = True

    def __init__(
        self,
        num_channels: int,
        grid: Grid,
        *,
        norm: NormFactory,
        kernel: int,
        multiple: float,
        activation: Activation,
        layer_scale: float,
        drop_path: float,
    ) -> None:
        super().__init__()
        check_kernel(kernel, usual=7)
        self.conv = nn.Conv2d(num_channels, num_channels, kernel, padding=kernel // 2, groups=num_channels)
        self.norm = norm(num_channels)
        self.feedforward = DenseFeedForward(num_channels, multiple=multiple, activation=activation)
        self.layer_scale = layer_scale
        self.gain = nn.Parameter(torch.full((num_channels,), layer_scale)) if layer_scale > 0 else None
        self.drop = Branch(num_channels, 1, dropout=0.0, drop_path=drop_path)
        self.own_grid = grid

    @property
    def grid(self) -> Grid:
        return self.own_grid

    def reset_parameters(self) -> None:
        if self.gain is not None:
            nn.init.constant_(self.gain, self.layer_scale)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        branch = self.feedforward(self.norm(_as_tokens(self.conv(x)), Context()), Context())
        if self.gain is not None:
            branch = self.gain * branch
        return x + _as_image(self.drop(branch), self.own_grid)

    def costs(self, query: CostContext) -> Costs:
        """Return the costs: autograd saves the stream for the convolution, and the branch for the gradient of its
        gain."""
        positions = self.own_grid[0] * self.own_grid[1]
        here = replace(query, length=positions)
        elements = self.conv.in_channels * positions
        convolved = Costs.of(
            self.conv,
            forward_flops=2 * self.conv.weight.numel() * positions,
            activation_bytes=elements * query.bytes_per_element,
        )
        costs = convolved + self.feedforward.costs(here) + self.drop.costs(here)
        if self.gain is not None:
            num_gains = self.gain.numel()
            costs += Costs(num_gains, num_gains, activation_bytes=elements * query.bytes_per_element)
        return costs + _norm_costs(self.norm, self.own_grid, query)


def _as_tokens(x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B L C"]:
    """Return the positions of an image as tokens, row by row."""
    return x.flatten(2).mT


def _as_image(x: Float[Tensor, "B L C"], grid: Grid) -> Float[Tensor, "B C H W"]:
    image: Tensor = x.mT.unflatten(2, grid)
    return image


def _norm_costs(norm: Norm, grid: Grid, query: CostContext) -> Costs:
    """Return the costs of a norm of every position; a network for images does not decode, and so carries no state."""
    return replace(norm.costs(replace(query, length=grid[0] * grid[1])), state_elements=0)
