"""A transformer whose attention stays within shifted windows (Liu et al. 2021, https://arxiv.org/abs/2103.14030)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.architectures.architecture import Architecture, CostRow, InputSize, check_image_shape, required
from headtohead.architectures.heads import ClassHeadFields
from headtohead.components.block import Block
from headtohead.components.block_parts import Branches, NormFactory
from headtohead.components.component import Context, Grid, Initialisation
from headtohead.components.convolutions import stages
from headtohead.components.embeddings import PatchEmbedding, PatchMerging
from headtohead.components.feedforwards import Activation, DenseFeedForward
from headtohead.components.mixers.attention.shifted_window import ShiftedWindowAttention
from headtohead.components.residuals import PreNorm
from headtohead.components.stack_parts import StackSize
from headtohead.errors import UsageError
from headtohead.field_group import FieldGroup
from headtohead.ranges import Depth, Length, Multiple, Probability, Width


@dataclass(frozen=True)
class WindowBlocks(FieldGroup):
    """The fields of every block: its windows, its feed-forward, and how often its branches are dropped."""

    window: Width = 4
    qkv_bias: bool = True
    """Whether the projections to queries, keys and values have biases."""
    multiple: Multiple = 4.0
    activation: Activation = "gelu"
    """The nonlinearity of the feed-forwards."""
    dropout: Probability = 0.0
    """The share of values zeroed in training: within blocks and before the classes; 0: none."""
    drop_path: Probability = 0.0

    def make(self, size: StackSize, grid: Grid, *, norm: NormFactory, layer: int, shifted: bool) -> Block:
        """Return the block of this layer of a stage as wide as `size` says, with the depth of the whole model; a window
        is at most as large as the grid, which then has no others to shift between."""
        window = min(self.window, *grid)
        if grid[0] % window or grid[1] % window:
            divisors = [side for side in range(1, math.gcd(*grid) + 1) if math.gcd(*grid) % side == 0]
            raise UsageError(
                f"model.window={self.window} does not divide the grid of {grid[0]} x {grid[1]} patches: choose "
                f"{', '.join(map(str, divisors))}, or another model.patch_size"
            )
        mixer = ShiftedWindowAttention(
            size.d_model,
            num_heads=size.num_heads,
            grid=grid,
            window=window,
            shift=window // 2 if shifted and min(grid) > window else 0,
            qkv_bias=self.qkv_bias,
            dropout=self.dropout,
        )
        feedforward = DenseFeedForward(
            size.d_model, dropout=self.dropout, multiple=self.multiple, activation=self.activation
        )
        drop_path = self.drop_path * layer / max(size.num_layers - 1, 1)
        branches = Branches(size.num_layers, dropout=self.dropout, drop_path=drop_path)
        return Block(mixer, None, feedforward, PreNorm(norm, size.d_model, branches))


class Swin(Architecture):
    """Patches, then stages of blocks with attention within windows, every second of them shifted by half a window; each
    stage but the first begins by merging patches."""

    family = "swin"
    no_mup_rule = "its widths grow from stage to stage, for which no rule is published"

    def __init__(
        self,
        size: StackSize,
        *,
        norm: NormFactory,  # of blocks, after patches, before mergings and the classes
        initialisation: Initialisation,  # draws the first weights
        image_shape: Sequence[Length] | None,
        classes: ClassHeadFields,
        patch_size: Width = 2,
        num_stages: Depth = 2,
        depths: Sequence[Depth] | None = None,
        blocks: WindowBlocks = WindowBlocks(),
    ) -> None:
        super().__init__()
        size.check()
        widths = list(stages(size.d_model, size.num_layers, num_stages, depths))
        if size.num_heads % 2 ** (num_stages - 1):
            raise UsageError(
                f"model.num_stages={num_stages} halves model.num_heads={size.num_heads} at each stage before the last: "
                f"choose a multiple of {2 ** (num_stages - 1)}, or fewer stages"
            )
        first_width, patch_size = widths[0][0], required("patch_size", patch_size, "")
        self.patches = PatchEmbedding(first_width, check_image_shape(image_shape), patch_size)
        self.embedding_norm = norm(first_width)
        self.layers = nn.ModuleList()
        grid, shifted = self.patches.grid, False
        for layer, (width, stride) in enumerate(widths):
            if stride > 1:
                merging = PatchMerging(width // 2, grid, norm=norm)
                self.layers.append(merging)
                grid, shifted = merging.grid, False
            here = replace(size, d_model=width, num_heads=size.num_heads * width // size.d_model)
            self.layers.append(blocks.make(here, grid, norm=norm, layer=layer, shifted=shifted))
            shifted = not shifted
        self.final_norm = norm(size.d_model)
        self.head = classes.make(size.d_model, norm=norm, dropout=blocks.dropout)
        initialisation(self)

    def features(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B L D"]:
        context = Context()
        x = self.embedding_norm(self.patches(images), context)
        for layer in self.layers:
            x = layer(x, context)
        y: Tensor = self.final_norm(x, context)
        return y

    def num_tokens(self, size: InputSize) -> int:
        """Return the number of patches."""
        del size
        return self.patches.num_patches

    def cost_rows(self, size: InputSize) -> Iterator[CostRow]:
        query = size.query(self.patches.num_patches)
        yield CostRow("patches", "patches", self.patches.costs(query))
        yield CostRow("embedding_norm", "norm", replace(self.embedding_norm.costs(query), state_elements=0))
        for index, layer in enumerate(self.layers):
            if isinstance(layer, PatchMerging):
                yield CostRow(f"layers.{index}", "merging", layer.costs(query))
                query = replace(query, length=layer.grid[0] * layer.grid[1])
            else:
                assert isinstance(layer, Block)
                for part, costs in layer.cost_rows(query):
                    yield CostRow(f"layers.{index}.{part}", part, replace(costs, state_elements=0))
        yield CostRow("final_norm", "norm", replace(self.final_norm.costs(query), state_elements=0))
        yield from (CostRow(*row) for row in self.head.cost_rows(query))

    def example_inputs(self, size: InputSize, batch_size: int, device: torch.device) -> dict[str, Tensor]:
        del size
        return {"images": torch.rand(batch_size, *self.patches.image_shape, device=device)}
