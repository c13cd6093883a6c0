"""A multi-layer perceptron (Rumelhart et al. 1986, https://doi.org/10.1038/323533a0) that reads an image, or a text of
fixed length, as one long vector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.architectures.architecture import (
    Architecture,
    CostRow,
    InputSize,
    check_image_shape,
    required,
)
from headtohead.architectures.heads import ClassHeadFields
from headtohead.components.component import Initialisation
from headtohead.components.costs import Costs
from headtohead.components.embeddings import TokenEmbedding
from headtohead.components.feedforwards import Activation, DenseLayer
from headtohead.components.norms import NoNorm
from headtohead.components.stack_parts import check_sizes
from headtohead.errors import UsageError
from headtohead.ranges import Depth, Length, Probability, Vocabulary, Width


class Mlp(Architecture):
    """Dense layers of one width over all pixels, or over the vectors of all words side by side, then a classifier."""

    family = "mlp"
    no_mup_rule = ""

    def __init__(
        self,
        d_model: Width,
        num_layers: Depth,  # dense layers before the classifier
        *,
        initialisation: Initialisation,  # draws the first weights
        classes: ClassHeadFields,
        vocab_size: Vocabulary | None,
        max_length: Length | None,
        image_shape: Sequence[Length] | None,
        activation: Activation = "relu",
        dropout: Probability = 0.0,
    ) -> None:
        super().__init__()
        check_sizes(d_model, num_layers, 1)
        self.d_model = d_model
        self.image_shape = None if image_shape is None else check_image_shape(image_shape)
        self.embedding: TokenEmbedding | None = None
        if self.image_shape is None:
            vocab_size = required(
                "vocab_size", vocab_size, "it comes from data with tokens; of images their shape does"
            )
            self.length = required("max_length", max_length, "it comes from data with tokens, or is given by number")
            self.embedding = TokenEmbedding(d_model, vocab_size)
            num_inputs = self.length * d_model
        else:
            channels, rows, columns = self.image_shape
            self.length, num_inputs = rows * columns, channels * rows * columns
        self.layers = nn.ModuleList()
        for _ in range(num_layers):
            reads_images = self.embedding is None and not self.layers
            layer = DenseLayer(num_inputs, d_model, activation=activation, dropout=dropout, reads_images=reads_images)
            self.layers.append(layer)
            num_inputs = d_model
        self.head = classes.make(d_model, norm=NoNorm, dropout=dropout)
        initialisation(self)

    def features(
        self,
        tokens: Tensor | None = None,
        valid: Bool[Tensor, "B L"] | None = None,
        token_types: Tensor | None = None,
        images: Tensor | None = None,
    ) -> Float[Tensor, "B 1 D"]:
        """Return one vector for the whole sample; the first argument may be images too, where the model is for them."""
        del token_types
        inputs = tokens if images is None else images
        assert inputs is not None, "a sample has tokens or images"
        x = self._pixels(inputs) if self.embedding is None else self._words(self.embedding(inputs), valid)
        for layer in self.layers:
            x = layer(x)
        return x[:, None]

    def forward(self, *args: Any, **inputs: Any) -> Tensor:
        logits: Tensor = self.head(self.features(*args, **inputs))
        return logits

    def _pixels(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B E"]:
        if tuple(images.shape[1:]) != self.image_shape:
            raise UsageError(
                f"images have shape {tuple(images.shape[1:])}, the model was built for {self.image_shape}."
            )
        return images.flatten(1)

    def _words(self, x: Float[Tensor, "B L D"], valid: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B E"]:
        """Return the concatenated words, zero where there are none."""
        missing = self.length - x.shape[1]
        if missing < 0:
            raise UsageError(
                f"a text of {x.shape[1]} tokens is longer than model.max_length={self.length}, which a perceptron has "
                "weights for: set it higher, or choose model=text_cnn or recurrent, which read any length."
            )
        if valid is not None:
            x = x * valid[..., None]
        return F.pad(x, (0, 0, 0, missing)).flatten(1)

    def length_error(self, size: InputSize) -> str | None:
        if self.embedding is None or size.length <= self.length:
            return None
        return f"a perceptron has weights for {self.length} positions, and rows of {size.length} tokens need more"

    def num_tokens(self, size: InputSize) -> int:
        """Return the number of words or of pixels."""
        return self.length if self.embedding is None else size.length

    def cost_rows(self, size: InputSize) -> Iterator[CostRow]:
        query = size.query(1)
        if self.embedding is not None:
            yield CostRow("embedding", "embedding", self.embedding.costs(size.query(size.length)))
        for index, layer in enumerate(cast(list[DenseLayer], list(self.layers))):
            yield CostRow(f"layers.{index}", "layer", layer.costs(query))
        left = self.d_model * query.bytes_per_element if layer.leaves_output else 0
        yield CostRow("features", "activations", Costs(activation_bytes=left))
        yield from (CostRow(*row) for row in self.head.cost_rows(query))

    def example_inputs(self, size: InputSize, batch_size: int, device: torch.device) -> dict[str, Tensor]:
        if self.embedding is None:
            assert self.image_shape is not None
            return {"images": torch.rand(batch_size, *self.image_shape, device=device)}
        return {"tokens": self.embedding.example(batch_size, min(size.length, self.length), device)}
