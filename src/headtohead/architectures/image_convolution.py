"""Convolutional networks for images share a base: layers that narrow the image down, then a classifier of the rest. One
has the parts of a transformer: ConvNeXt (Liu et al. 2022, https://arxiv.org/abs/2201.03545)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.architectures.architecture import Architecture, CostRow, Head, InputSize, check_image_shape, required
from headtohead.architectures.heads import ClassHeadFields
from headtohead.components.block_parts import Norm, NormFactory
from headtohead.components.component import Context, Grid, Initialisation
from headtohead.components.convnext_layers import ConvNextBlock, Downsampling, PatchStem
from headtohead.components.convolutions import (
    ConvolutionLayer,
    ImageConvolution,
    ImageLayer,
    ResidualConvolutions,
    stages,
)
from headtohead.components.costs import CostContext, Costs
from headtohead.components.feedforwards import Activation
from headtohead.components.norms import LayerNorm
from headtohead.components.stack_parts import check_sizes
from headtohead.errors import UsageError
from headtohead.field_group import FieldGroup
from headtohead.ranges import Depth, Length, Multiple, NotNegative, OddWidth, Positive, Probability, Width


class Convolutional(Architecture):
    """head(layers(images)); the remaining positions are the tokens that the head pools."""

    no_mup_rule = "convolutions need rules of their own (https://arxiv.org/abs/2203.03466, of ResNets)"

    @abstractmethod
    def __init__(self, d_model: int, num_layers: int, image_shape: Sequence[int] | None) -> None:
        """Makes the layers, then calls `finish`."""
        super().__init__()
        check_sizes(d_model, num_layers, 1)
        self.d_model, self.image_shape = d_model, check_image_shape(image_shape)
        self.layers = nn.ModuleList()

    def finish(self, head: Head, initialisation: Initialisation) -> None:
        """Add the head after the layers, and initialise everything."""
        self.head = head
        initialisation(self)

    def features(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B L D"]:
        if tuple(images.shape[1:]) != self.image_shape:
            raise UsageError(
                f"images have shape {tuple(images.shape[1:])}, the model was built for {self.image_shape}."
            )
        x = images
        for layer in self.layers:
            x = layer(x)
        return x.flatten(2).mT

    def num_tokens(self, size: InputSize) -> int:
        """Return the number of pixels."""
        del size
        return self.image_shape[1] * self.image_shape[2]

    def cost_rows(self, size: InputSize) -> Iterator[CostRow]:
        query = size.query(self.num_tokens(size))
        yield from self.layer_rows(query)
        rows, columns = self.grid
        left = 0 if self._last.keeps_input else rows * columns * self.d_model * query.bytes_per_element
        yield CostRow("features", "activations", Costs(activation_bytes=left))
        yield from (CostRow(*row) for row in self.head.cost_rows(query))

    def layer_rows(self, query: CostContext) -> Iterator[CostRow]:
        """Yield the costs of the layers, one row each."""
        for index, layer in enumerate(cast(list[ImageLayer], list(self.layers))):
            yield CostRow(f"layers.{index}", "convolution", layer.costs(query))

    @property
    def grid(self) -> Grid:
        """Return the rows and columns that the layers made so far leave."""
        return self._last.grid

    @property
    def _last(self) -> ImageLayer:
        return cast(ImageLayer, self.layers[-1])

    def example_inputs(self, size: InputSize, batch_size: int, device: torch.device) -> dict[str, Tensor]:
        del size
        return {"images": torch.rand(batch_size, *self.image_shape, device=device)}


# A plain convolutional network for images (LeCun et al. 1998, https://doi.org/10.1109/5.726791), its layers small and
# many (Simonyan and Zisserman 2015, https://arxiv.org/abs/1409.1556).


class Cnn(Convolutional):
    """act(norm(conv(x))) repeatedly; each new stage halves the resolution and doubles the channels."""

    family = "cnn"

    def __init__(
        self,
        d_model: Width,
        num_layers: Depth,  # convolutions, divided among the stages
        *,
        norm: NormFactory,  # after each convolution
        initialisation: Initialisation,  # draws the first weights
        image_shape: Sequence[Length] | None,
        classes: ClassHeadFields,
        num_stages: Depth = 2,
        kernel: OddWidth = 3,
        activation: Activation = "relu",
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__(d_model, num_layers, image_shape)
        channels, *sides = self.image_shape
        grid = (sides[0], sides[1])
        for width, stride in stages(d_model, num_layers, num_stages):
            convolution = ImageConvolution(
                channels, width, grid, norm=norm, kernel=kernel, stride=stride, reads_images=not self.layers
            )
            self.layers.append(ConvolutionLayer(convolution, activation=activation))
            channels, grid = width, convolution.grid
        self.finish(classes.make(d_model, norm=norm, dropout=dropout), initialisation)


# A small residual network for images, as those for CIFAR (He et al. 2016, https://arxiv.org/abs/1512.03385).


class ResNet(Convolutional):
    """One convolution, then `num_layers` residual blocks of two; each new stage halves the resolution and doubles the
    channels."""

    family = "resnet"

    def __init__(
        self,
        d_model: Width,
        num_layers: Depth,  # residual blocks of two convolutions, divided among the stages
        *,
        norm: NormFactory,  # after each convolution
        initialisation: Initialisation,  # draws the first weights
        image_shape: Sequence[Length] | None,
        classes: ClassHeadFields,
        num_stages: Depth = 2,
        kernel: OddWidth = 3,
        activation: Activation = "relu",
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__(d_model, num_layers, image_shape)
        blocks = list(stages(d_model, num_layers, num_stages))
        image_channels, *sides = self.image_shape
        channels = blocks[0][0]
        stem = ImageConvolution(
            image_channels, channels, (sides[0], sides[1]), norm=norm, kernel=kernel, reads_images=True
        )
        self.layers.append(ConvolutionLayer(stem, activation=activation))
        grid = stem.grid
        for width, stride in blocks:
            block = ResidualConvolutions(
                channels, width, grid, norm=norm, kernel=kernel, stride=stride, activation=activation
            )
            self.layers.append(block)
            channels, grid = width, block.grid
        self.finish(classes.make(d_model, norm=norm, dropout=dropout), initialisation)


@dataclass(frozen=True)
class DownsamplingStages(FieldGroup):
    """The patches of the first grid, the stages, each of which but the first halves it, and the depth of each."""

    patch_size: Width = 2
    """Side of a patch in pixels; must divide the image's height and width."""
    num_stages: Depth = 2
    depths: Sequence[Depth] | None = None


@dataclass(frozen=True)
class ConvNextBlocks(FieldGroup):
    """The fields of every block: its convolution, its feed-forward, and the scale and the loss of its branch."""

    kernel: OddWidth = 7
    """Side of the depthwise convolution's window, in patches; must be odd."""
    multiple: Multiple = 4.0
    activation: Activation = "gelu"
    """The nonlinearity of the feed-forwards."""
    layer_scale: NotNegative = 1e-6
    drop_path: Probability = 0.0

    def make(self, width: int, grid: Grid, *, norm: NormFactory, depth: float) -> ConvNextBlock:
        """Return a block; `depth` is 0 for the first of a model and 1 for the last, whose branch is dropped most."""
        return ConvNextBlock(
            width,
            grid,
            norm=norm,
            kernel=self.kernel,
            multiple=self.multiple,
            activation=self.activation,
            layer_scale=self.layer_scale,
            drop_path=self.drop_path * depth,
        )


class ConvNext(Convolutional):
    """Patches, then stages of blocks, each stage but the first after a halving of the grid; the mean over all places,
    normalised, is the one vector that the head reads."""

    family = "convnext"

    def __init__(
        self,
        d_model: Width,
        num_layers: Depth,  # blocks, divided among the stages unless `depths` says how
        *,
        norm: NormFactory,  # of blocks, after patches and pooling, before halvings
        initialisation: Initialisation,  # draws the first weights
        image_shape: Sequence[Length] | None,
        classes: ClassHeadFields,
        grids: DownsamplingStages = DownsamplingStages(),
        blocks: ConvNextBlocks = ConvNextBlocks(),
        pooled_eps: Positive | None = None,
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__(d_model, num_layers, image_shape)
        patch_size = required("patch_size", grids.patch_size, "")
        for layer, (width, stride) in enumerate(stages(d_model, num_layers, grids.num_stages, grids.depths)):
            if not self.layers:
                self.layers.append(PatchStem(width, self.image_shape, patch_size, norm=norm))
            elif stride > 1:
                self.layers.append(Downsampling(width // 2, width, self.grid, norm=norm))
            self.layers.append(blocks.make(width, self.grid, norm=norm, depth=layer / max(num_layers - 1, 1)))
        self.pooled_norm = _with_eps(norm(d_model), pooled_eps)
        self.finish(classes.make(d_model, norm=norm, dropout=dropout), initialisation)

    def features(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B 1 D"]:
        pooled: Tensor = self.pooled_norm(super().features(images).mean(1, keepdim=True), Context())
        return pooled

    def cost_rows(self, size: InputSize) -> Iterator[CostRow]:
        query = size.query(self.num_tokens(size))
        yield from self.layer_rows(query)
        pooled = self.pooled_norm.costs(replace(query, length=1))
        yield CostRow("pooled_norm", "norm", replace(pooled, state_elements=0))
        yield from (CostRow(*row) for row in self.head.cost_rows(query))


def _with_eps(norm: Norm, eps: float | None) -> Norm:
    """Return the norm with an epsilon of its own, which only a layer norm may have: published files differ in it."""
    if eps is None:
        return norm
    if not isinstance(norm, LayerNorm):
        raise UsageError(
            f"model.pooled_eps={eps} is the epsilon of a layer norm, and model/norm makes {type(norm).__name__}: set "
            "model.pooled_eps=null, or choose model/norm=layer_norm"
        )
    norm.eps = eps
    return norm
