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
from headtohead.ranges import Depth, Length, Probability, Vocabulary, Width


class Cnn(Convolutional):
    """act(norm(conv(x))) time and again; where a new stage begins, half the places each way and twice the channels."""

    family = "cnn"

    def __init__(
        self,
        d_model: Width,
        num_layers: Depth,
        *,
        norm: NormFactory,
        initialisation: Initialisation,
        image_shape: Sequence[Length] | None,
        num_classes: Vocabulary | None,
        num_stages: Depth = 2,
        kernel: Width = 3,
        activation: Activation = "relu",
        head: HeadName = "classifier",
        pooling: Literal["mean"] = "mean",
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
        self.finish(head, num_classes, norm=norm, pooling=pooling, dropout=dropout, initialisation=initialisation)
