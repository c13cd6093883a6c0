"""A convolutional network with the parts of a transformer (Liu et al. 2022, https://arxiv.org/abs/2201.03545)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from headtohead.architectures.architecture import CostRow, InputSize, required
from headtohead.architectures.heads import ClassHeadFields
from headtohead.architectures.image_convolution import Convolutional
from headtohead.components.block_parts import Norm, NormFactory
from headtohead.components.component import Context, Grid, Initialisation
from headtohead.components.convnext_layers import ConvNextBlock, Downsampling, PatchStem
from headtohead.components.convolutions import stages
from headtohead.components.feedforwards import Activation
from headtohead.components.norms import LayerNorm
from headtohead.errors import UsageError
from headtohead.field_group import FieldGroup
from headtohead.ranges import Depth, Length, Multiple, NotNegative, Positive, Probability, Width


@dataclass(frozen=True)
class HalvedGrids(FieldGroup):
    """The patches of the first grid, the stages, each of which but the first halves it, and the depth of each."""

    patch_size: Width = 2
    """Side of a patch in pixels; must divide the image's height and width."""
    num_stages: Depth = 2
    depths: Sequence[Depth] | None = None


@dataclass(frozen=True)
class ConvNextBlocks(FieldGroup):
    """The fields of every block: its convolution, its feed-forward, and the scale and the loss of its branch."""

    kernel: Width = 7
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
        grids: HalvedGrids = HalvedGrids(),
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
