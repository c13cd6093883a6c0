"""The decoder of a masked autoencoder (He et al. 2022, https://arxiv.org/abs/2111.06377): from what the encoder made of
the visible patches of an image it restores the pixels of all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from headtohead.architectures.architecture import Head
from headtohead.architectures.ledger import stack_rows
from headtohead.components.component import Context
from headtohead.components.costs import CostContext, Costs
from headtohead.components.embeddings import PatchEmbedding
from headtohead.components.linear_maps import ReadoutLinear, linear_costs
from headtohead.components.stack import Stack
from headtohead.components.stack_parts import StackOptions, StackParts, StackSize
from headtohead.errors import UsageError
from headtohead.field_group import FieldGroup
from headtohead.ranges import Depth, Width


@dataclass(frozen=True)
class PixelDecoderFields(FieldGroup):
    """The size of the decoder under task=masked_image_modeling; other tasks have none."""

    decoder_width: Width | None = None
    decoder_layers: Depth = 1
    decoder_heads: Width | None = None

    def size(self, encoder: StackSize) -> StackSize:
        """Return the decoder's own size: where nothing is said, half the encoder's width and as many heads."""
        heads = self.decoder_heads or encoder.num_heads
        width = self.decoder_width or max(heads, encoder.d_model // 2 // heads * heads)
        if width % heads:
            raise UsageError(
                f"model.decoder_heads={heads} does not divide model.decoder_width={width}: choose a "
                "divisor of the width"
            )
        return StackSize(width, self.decoder_layers, heads)


class PixelDecoder(Head):
    """pixels(stack(tokens)): what the encoder saw in its place, one learned token in the place of everything else."""

    needs_all_logits = True
    hides_input = True
    has_stack = True

    def __init__(
        self, d_model: int, size: StackSize, parts: StackParts, patches: PatchEmbedding, *, leading: int, dropout: float
    ) -> None:
        super().__init__()
        self.d_model, self.num_patches, self.leading = d_model, patches.num_patches, leading
        self.num_values = patches.projection.in_features
        self.embed = nn.Linear(d_model, size.d_model)
        self.mask_token = nn.Parameter(torch.empty(size.d_model))
        length = self.num_patches + leading
        options, parts = StackOptions(dropout=dropout), parts.without_patterns()
        self.stack = Stack(size, parts, options, causal=False, max_length=length, grid=patches.grid)
        self.pixels = ReadoutLinear(size.d_model, self.num_values)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.mask_token, std=0.02)

    def forward(
        self,
        features: Float[Tensor, "B M D"],
        valid: Int[Tensor, "B N"] | None = None,
        token_types: Tensor | None = None,
    ) -> Float[Tensor, "B P E"]:
        """Return the values of all patches; `valid` are the numbers of the visible ones, None where all are."""
        del token_types
        x = self.embed(features)
        if valid is not None:
            tokens = self.mask_token.to(x.dtype).expand(x.shape[0], self.num_patches, -1)
            index = valid[..., None].expand(-1, -1, x.shape[-1])
            x = torch.cat([x[:, : self.leading], tokens.scatter(1, index, x[:, self.leading :])], dim=1)
        y: Tensor = self.pixels(self.stack(x, Context())[:, self.leading :])
        return y

    def cost_rows(self, query: CostContext) -> Iterator[tuple[str, str, Costs]]:
        """Yield the costs for features of the query's length, from which all patches are restored."""
        width = self.stack.d_model
        yield "head.embed", "head", linear_costs(self.d_model, width, self.d_model * width + width, query)
        index = Costs(width, width, activation_bytes=8 * (query.length - self.leading))
        yield "head.mask_token", "embedding", index
        whole = replace(query, length=self.num_patches + self.leading)
        for row in stack_rows(self.stack, "head.stack", whole):
            yield row.path, row.kind, row.costs
        pixels = replace(query, length=self.num_patches)
        parameters = width * self.num_values + self.num_values
        yield "head.pixels", "head", linear_costs(width, self.num_values, parameters, pixels)
