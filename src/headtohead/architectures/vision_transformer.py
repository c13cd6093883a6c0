"""A transformer over the patches of an image (Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.architectures.architecture import Architecture, CostRow, InputSize, check_image_shape, required
from headtohead.architectures.heads import HeadName, make_head
from headtohead.architectures.ledger import stack_rows
from headtohead.components.component import Context, Initialisation
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
        initialisation: Initialisation,
    ) -> None:
        super().__init__()
        size.check()
        d_model, patch_size = size.d_model, required("patch_size", patch_size, "")
        self.patches = PatchEmbedding(d_model, check_image_shape(image_shape), patch_size)
        self.class_token = ClassToken(d_model) if pooling == "cls" else None
        self.stack = Stack(size, parts, options, causal=False, max_length=self.length, grid=self.patches.grid)
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
        return self.patches.num_patches + (self.class_token is not None)

    def features(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B L D"]:
        x = self.patches(images)
        y: Tensor = self.stack(x if self.class_token is None else self.class_token(x), Context())
        return y

    def num_tokens(self, size: InputSize) -> int:
        del size
        return self.length

    def cost_rows(self, size: InputSize) -> Iterator[CostRow]:
        query = size.query(self.length)
        yield CostRow("patches", "patches", self.patches.costs(query))
        if self.class_token is not None:
            yield CostRow("class_token", "embedding", self.class_token.costs(query))
        yield from stack_rows(self.stack, "stack", query)
        yield from (CostRow(*row) for row in self.head.cost_rows(query))

    def example_inputs(self, size: InputSize, batch_size: int, device: torch.device) -> dict[str, Tensor]:
        del size
        return {"images": torch.rand(batch_size, *self.patches.image_shape, device=device)}
