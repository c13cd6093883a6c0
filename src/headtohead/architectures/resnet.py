"""A small residual network for images, as those for CIFAR (He et al. 2016, https://arxiv.org/abs/1512.03385)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from headtohead.architectures.convolutional import Convolutional
from headtohead.architectures.heads import HeadName
from headtohead.components.contracts import Initialisation, NormFactory
from headtohead.components.convolutions import ConvolutionLayer, ImageConvolution, ResidualConvolutions, stages
from headtohead.components.feedforwards import Activation
from headtohead.ranges import Depth, Length, Probability, Vocabulary, Width


class ResNet(Convolutional):
    """One convolution, then `num_layers` residual blocks of two; where a new stage begins, half the places each way and
    twice the channels."""

    family = "resnet"

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
        self.finish(head, num_classes, norm=norm, pooling=pooling, dropout=dropout, initialisation=initialisation)
