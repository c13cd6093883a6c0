"""What convolutional networks for images share: layers that narrow the image down, then a classifier of the rest."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.architectures.checks import check_sizes, checked_shape
from headtohead.architectures.contracts import Architecture, CostRow, InputSize
from headtohead.architectures.heads import make_head
from headtohead.components.contracts import Costs, Initialisation, NormFactory
from headtohead.components.convolutions import ImageLayer
from headtohead.errors import UsageError


class Convolutional(Architecture):
    """head(layers(images)); the places that are left are the tokens that the head pools."""

    no_width_rule = "convolutions need rules of their own (https://arxiv.org/abs/2203.03466, of ResNets)"

    @abstractmethod
    def __init__(self, d_model: int, num_layers: int, image_shape: Sequence[int] | None) -> None:
        """Makes the layers, then calls `finish`."""
        super().__init__()
        check_sizes(d_model, num_layers, 1)
        self.d_model, self.image_shape = d_model, checked_shape(image_shape)
        self.layers = nn.ModuleList()

    def finish(
        self,
        head: str,
        num_classes: int | None,
        *,
        norm: NormFactory,
        pooling: str,
        dropout: float,
        initialisation: Initialisation,
    ) -> None:
        """After the layers: the head, and how all of it starts."""
        self.head = make_head(
            head,
            self.d_model,
            vocab_size=None,
            num_classes=num_classes,
            norm=norm,
            tied_to=None,
            bias=True,
            pooling=pooling,
            dropout=dropout,
        )
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
        """The pixels."""
        del size
        return self.image_shape[1] * self.image_shape[2]

    def cost_rows(self, size: InputSize) -> Iterator[CostRow]:
        query = size.query(self.num_tokens(size))
        for place, layer in enumerate(cast(list[ImageLayer], list(self.layers))):
            yield CostRow(f"layers.{place}", "convolution", layer.costs(query))
        places = layer.grid[0] * layer.grid[1]
        left = 0 if layer.keeps_input else places * self.d_model * query.bytes_per_element
        yield CostRow("features", "activations", Costs(activation_bytes=left))
        yield from (CostRow(*row) for row in self.head.cost_rows(query))

    def example_inputs(self, size: InputSize, batch_size: int, device: torch.device) -> dict[str, Tensor]:
        del size
        return {"images": torch.rand(batch_size, *self.image_shape, device=device)}
