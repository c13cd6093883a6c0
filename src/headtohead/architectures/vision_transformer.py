"""A transformer over the patches of an image (Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture, CostRow, InputSize, check_image_shape, required
from headtohead.architectures.head_names import HeadName
from headtohead.architectures.heads import make_head
from headtohead.architectures.ledger import stack_rows
from headtohead.architectures.pixel_decoder import PixelDecoder, PixelDecoderFields
from headtohead.components.component import Context, Initialisation
from headtohead.components.costs import Costs
from headtohead.components.embeddings import ClassToken, PatchEmbedding
from headtohead.components.stack import Stack
from headtohead.components.stack_parts import StackOptions, StackParts, StackSize
from headtohead.ranges import Length, Vocabulary, Width


class VisionTransformer(Architecture):
    """Patch embedding, with pooling=cls a class token before the patches, bidirectional stack, classifier."""

    family = "vision_transformer"
    no_mup_rule = ""

    def __init__(
        self,
        size: StackSize,
        parts: StackParts,
        *,
        image_shape: Sequence[Length] | None,
        num_classes: Vocabulary | None,
        patch_size: Width = 2,
        head: HeadName = "classifier",
        pooling: Literal["cls", "mean"] = "cls",
        options: StackOptions = StackOptions(),
        decoder: PixelDecoderFields = PixelDecoderFields(),
        initialisation: Initialisation,  # draws the first weights
    ) -> None:
        super().__init__()
        size.check()
        d_model, patch_size = size.d_model, required("patch_size", patch_size, "")
        self.patches = PatchEmbedding(d_model, check_image_shape(image_shape), patch_size)
        self.class_token = ClassToken(d_model) if pooling == "cls" else None
        self.stack = Stack(size, parts, options, causal=False, max_length=self.length, grid=self.patches.grid)
        if head == "pixel_decoder":
            self.head = PixelDecoder(
                d_model, decoder.size(size), parts, self.patches, leading=self.leading, dropout=options.dropout
            )
        else:
            self.head = make_head(
                head,
                d_model,
                vocab_size=None,
                num_classes=num_classes,
                norm=parts.norm,
                tied_to=None,
                bias=True,
                pooling=pooling,
                dropout=options.dropout,
            )
        initialisation(self)

    @property
    def length(self) -> int:
        """Return the number of patches, plus the class token where there is one."""
        return self.patches.num_patches + self.leading

    @property
    def leading(self) -> int:
        """Return the number of tokens before the patches."""
        return int(self.class_token is not None)

    def forward(self, images: Float[Tensor, "B C H W"], visible: Int[Tensor, "B N"] | None = None) -> Tensor:
        """Apply the head to the features; one that restores patches is told which of them were seen."""
        logits: Tensor = self.head(self.features(images=images, visible=visible), visible)
        return logits

    def features(
        self, images: Float[Tensor, "B C H W"], visible: Int[Tensor, "B N"] | None = None
    ) -> Float[Tensor, "B L D"]:
        """Return everything before the head, of the visible patches alone where these are given."""
        x, positions = self.patches(images), None
        if visible is not None:
            x = x.gather(1, visible[..., None].expand(-1, -1, x.shape[2]))
            first = visible.new_zeros(visible.shape[0], self.leading)
            positions = torch.cat([first, visible + self.leading], dim=1)
        y: Tensor = self.stack(x if self.class_token is None else self.class_token(x), Context(positions=positions))
        return y

    def num_tokens(self, size: InputSize) -> int:
        del size
        return self.length

    def cost_rows(self, size: InputSize) -> Iterator[CostRow]:
        num_hidden = self._num_hidden(size)
        query = size.query(self.length - num_hidden)
        yield CostRow("patches", "patches", self.patches.costs(query))
        if num_hidden:
            yield CostRow("visible", "activations", Costs(activation_bytes=8 * (query.length - self.leading)))
        if self.class_token is not None:
            yield CostRow("class_token", "embedding", self.class_token.costs(query))
        yield from stack_rows(self.stack, "stack", query)
        yield from (CostRow(*row) for row in self.head.cost_rows(query))

    def _num_hidden(self, size: InputSize) -> int:
        """Return the number of patches of a sample that the stack does not see: those that are restored."""
        values = self.patches.projection.in_features
        return (size.scored or 0) // values if self.head.hides_input else 0

    def example_inputs(self, size: InputSize, batch_size: int, device: torch.device) -> dict[str, Tensor]:
        images = {"images": torch.rand(batch_size, *self.patches.image_shape, device=device)}
        if not self.head.hides_input or size.scored is None:
            return images
        visible = torch.arange(self._num_hidden(size), self.patches.num_patches, device=device)
        return {**images, "visible": visible.expand(batch_size, -1)}
