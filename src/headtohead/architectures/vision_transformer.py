"""A transformer over the patches of an image (Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.architectures.checks import check_sizes, checked_shape, required
from headtohead.architectures.contracts import Architecture, CostRow, InputSize
from headtohead.architectures.heads import HeadName, make_head
from headtohead.architectures.patterns import mixers_by_layer
from headtohead.architectures.stack_rows import stack_rows
from headtohead.components.contracts import (
    Context,
    FeedForwardFactory,
    Initialisation,
    MixerFactory,
    NormFactory,
    PositionFactory,
    WiringFactory,
)
from headtohead.components.embeddings import ClassToken, PatchEmbedding
from headtohead.components.mixers.identity import Identity
from headtohead.components.stack import Stack
from headtohead.ranges import Depth, Length, Probability, Vocabulary, Width


class VisionTransformer(Architecture):
    """Patch embedding, with pooling=cls a class token before the patches, bidirectional stack, classifier."""

    family = "vision_transformer"
    no_width_rule = ""

    def __init__(
        self,
        d_model: Width,
        num_layers: Depth,
        num_heads: Width,
        *,
        mixer: MixerFactory,
        pattern: Sequence[str] | None = None,
        mixers: Mapping[str, MixerFactory] | None = None,
        local: MixerFactory = Identity,
        position: PositionFactory,
        norm: NormFactory,
        residual: WiringFactory,
        feedforward: FeedForwardFactory,
        initialisation: Initialisation,
        image_shape: Sequence[Length] | None,
        num_classes: Vocabulary | None,
        patch_size: Width = 2,
        head: HeadName = "classifier",
        pooling: Literal["cls", "mean"] = "cls",
        dropout: Probability = 0.0,
        drop_path: Probability = 0.0,
        embedding_norm: bool = False,
    ) -> None:
        super().__init__()
        check_sizes(d_model, num_layers, num_heads)
        self.patches = PatchEmbedding(d_model, checked_shape(image_shape), required("patch_size", patch_size, ""))
        self.class_token = ClassToken(d_model) if pooling == "cls" else None
        self.stack = Stack(
            d_model,
            num_heads=num_heads,
            mixers=mixers_by_layer(num_layers, mixer, pattern, mixers),
            local=local,
            position=position,
            norm=norm,
            residual=residual,
            feedforward=feedforward,
            causal=False,
            max_length=self.length,
            dropout=dropout,
            drop_path=drop_path,
            grid=self.patches.grid,
            embedding_norm=embedding_norm,
        )
        self.head = make_head(
            head,
            d_model,
            vocab_size=None,
            num_classes=num_classes,
            norm=norm,
            tied_to=None,
            bias=True,
            pooling=pooling,
            dropout=dropout,
        )
        initialisation(self)

    @property
    def length(self) -> int:
        """Patches, and the class token where there is one."""
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
