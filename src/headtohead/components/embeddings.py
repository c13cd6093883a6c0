"""Embeddings turn tokens, segment numbers and images into vectors: one gather, or one product per patch.

Patch merging halves a grid of tokens (Liu et al. 2021, https://arxiv.org/abs/2103.14030).
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.components.block_parts import NormFactory
from headtohead.components.component import Component, Context, Grid
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import InputLinear, linear_costs
from headtohead.errors import UsageError


class TokenEmbedding(Component):
    """One vector per token id, times sqrt(d_model) on request (Vaswani et al. 2017,
    https://arxiv.org/abs/1706.03762)."""

    def __init__(self, d_model: int, vocab_size: int, *, scale: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model))
        self.factor = math.sqrt(d_model) if scale else 1.0
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, tokens: Int[Tensor, "B L"]) -> Float[Tensor, "B L D"]:
        vectors = F.embedding(tokens, self.weight)
        return vectors if self.factor == 1.0 else vectors * self.factor

    def example(self, batch_size: int, length: int, device: torch.device) -> Int[Tensor, "B L"]:
        """Return random tokens of the right shape, from the global generator."""
        return torch.randint(0, len(self.weight), (batch_size, length), device=device)

    def costs(self, query: CostContext) -> Costs:
        """Return the costs; autograd saves the indices."""
        return Costs.of(self, activation_bytes=8 * query.length)


class SegmentEmbedding(Component):
    """One vector per kind of segment: first or second sentence of a pair."""

    def __init__(self, d_model: int, num_segments: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_segments, d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, token_types: Int[Tensor, "B L"]) -> Float[Tensor, "B L D"]:
        return F.embedding(token_types, self.weight)

    def costs(self, query: CostContext) -> Costs:
        """Return the costs; autograd saves the indices."""
        return Costs.of(self, activation_bytes=8 * query.length)


class ClassToken(Component):
    """One learned vector before all others, which represents the whole sequence."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(d_model))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B M D"]:
        token = self.weight.to(x.dtype).expand(x.shape[0], 1, -1)
        return torch.cat([token, x], dim=1)

    def costs(self, query: CostContext) -> Costs:
        del query
        return Costs.of(self)


def check_patches(height: int, width: int, size: int) -> None:
    """Raise an error where images of this size are not divided into patches."""
    if height % size or width % size:
        raise UsageError(
            f"model.patch_size={size} does not divide images of {height} x {width}: "
            f"choose a divisor of {math.gcd(height, width)}."
        )


def split_patches(images: Float[Tensor, "B C H W"], size: int) -> Float[Tensor, "B P E"]:
    """Return the values of square patches, row by row; within a patch, channel by channel."""
    check_patches(images.shape[2], images.shape[3], size)
    grid = images.unflatten(2, (-1, size)).unflatten(4, (-1, size))  # B C rows size columns size
    patches: Tensor = grid.permute(0, 2, 4, 1, 3, 5).flatten(1, 2).flatten(2)
    return patches


class PatchEmbedding(Component):
    """Square patches, flattened and projected (Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929)."""

    def __init__(self, d_model: int, image_shape: tuple[int, int, int], patch_size: int) -> None:
        super().__init__()
        channels, height, width = image_shape
        check_patches(height, width, patch_size)
        self.image_shape = (channels, height, width)
        self.patch_size = patch_size
        self.grid = (height // patch_size, width // patch_size)
        self.projection = InputLinear(channels * patch_size**2, d_model)

    @property
    def num_patches(self) -> int:
        return self.grid[0] * self.grid[1]

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B L D"]:
        if tuple(images.shape[1:]) != self.image_shape:
            raise UsageError(
                f"images have shape {tuple(images.shape[1:])}, the model was built for {self.image_shape}."
            )
        y: Tensor = self.projection(split_patches(images, self.patch_size))
        return y

    def costs(self, query: CostContext) -> Costs:
        """Return the costs per image, whatever the query's length; images need no gradient, so that backward costs one
        forward."""
        d_model, num_inputs = self.projection.weight.shape
        parameters = d_model * num_inputs + d_model
        forward = 2 * num_inputs * d_model * self.num_patches
        return Costs(
            parameters=parameters,
            active_parameters=parameters,
            forward_flops=forward,
            training_flops=2 * forward,
            activation_bytes=num_inputs * self.num_patches * query.bytes_per_element,
        )


class PatchMerging(Component):
    """reduction(norm(squares)): the four tokens of each square of 2 x 2 become one, twice as wide."""

    def __init__(self, d_model: int, grid: Grid, *, norm: NormFactory) -> None:
        super().__init__()
        rows, columns = grid
        if rows % 2 or columns % 2:
            raise UsageError(
                f"model.num_stages halves the grid of patches between stages, and one of {rows} x {columns} cannot be "
                "halved: choose fewer stages, another model.patch_size, or images of another size"
            )
        self.d_model, self.grid_before = d_model, grid
        self.norm = norm(4 * d_model)
        self.reduction = nn.Linear(4 * d_model, 2 * d_model, bias=False)

    @property
    def grid(self) -> Grid:
        """Return rows and columns of what is left."""
        rows, columns = self.grid_before
        return rows // 2, columns // 2

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B M E"]:
        del context
        squares = x.unflatten(1, self.grid_before).unflatten(2, (-1, 2)).unflatten(1, (-1, 2))
        tokens = squares.permute(0, 1, 3, 4, 2, 5).flatten(3, 5).flatten(1, 2)  # column by column within a square
        y: Tensor = self.reduction(self.norm(tokens, Context()))
        return y

    def costs(self, query: CostContext) -> Costs:
        merged = replace(query, length=self.grid[0] * self.grid[1])
        normed = replace(self.norm.costs(merged), state_elements=0)
        return normed + linear_costs(4 * self.d_model, 2 * self.d_model, self.reduction.weight.numel(), merged)
