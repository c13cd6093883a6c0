"""A plain convolutional network for images (LeCun et al. 1998, https://doi.org/10.1109/5.726791), its layers small and
many (Simonyan and Zisserman 2015, https://arxiv.org/abs/1409.1556)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from headtohead.architectures.convolutional import Convolutional
from headtohead.architectures.heads import HeadName
from headtohead.components.contracts import Initialisation, NormFactory
from headtohead.components.convolutions import ConvolutionLayer, ImageConvolution, stages
from headtohead.components.feedforwards import Activation


class Cnn(Convolutional):
    """act(norm(conv(x))) time and again; where a new stage begins, half the places each way and twice the channels."""

    family = "cnn"

    def __init__(
        self,
        d_model: int,
        num_layers: int,
        *,
        norm: NormFactory,
        initialisation: Initialisation,
        image_shape: Sequence[int] | None,
        num_classes: int | None,
        num_stages: int = 2,
        kernel: int = 3,
        activation: Activation = "relu",
        head: HeadName = "classifier",
        pooling: Literal["mean"] = "mean",
        dropout: float = 0.0,
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
        self.finish(head, num_classes, norm=norm, pooling=pooling, dropout=dropout, initialisation=initialisation)
