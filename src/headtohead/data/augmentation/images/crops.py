"""Parts of images: of the same size out of a wider one, or of any size, enlarged."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import torch

from headtohead.data.augmentation.contracts import Draws
from headtohead.data.augmentation.images.base import (
    ImageAugmentation,
    Images,
    between,
    checked_span,
    numbers,
    whole_between,
)
from headtohead.data.contracts import DataError
from headtohead.data.pixels.places import bordered, cut_out, enlargements, transformed
from headtohead.ranges import AtLeastOne, Length, Share

Border = Literal["black", "mirror"]
_NUM_TRIES = 10


class RandomCrop(ImageAugmentation):
    """Moved by up to `margin` pixels in each direction, as residual networks were trained on CIFAR
    (https://arxiv.org/abs/1512.03385)."""

    def __init__(self, margin: Length = 4, border: Border = "black") -> None:
        if margin < 1:
            raise DataError(f"augmentation margin={margin} must be at least 1 pixel.")
        if border not in get_args(Border):
            raise DataError(f"augmentation border={border} is unknown: choose {' or '.join(get_args(Border))}.")
        self.margin, self.border = margin, border

    def check(self, height: int, width: int) -> None:
        if self.border == "mirror" and self.margin >= min(height, width):
            raise DataError(
                f"augmentation margin={self.margin} mirrors more than images of {height} x {width} pixels have: give "
                f"at most {min(height, width) - 1}."
            )

    def changed(self, images: Images, draws: Draws) -> Images:
        if self.border == "mirror":
            wide = bordered(images, self.margin)
        else:
            black = self.scale.of_level(0, images)
            wide = bordered(images - black, self.margin, value=0.0) + black
        places = whole_between(draws.uniform(2), 0, 2 * self.margin)
        tops, lefts = (torch.from_numpy(places[:, axis]).to(images.device) for axis in (0, 1))
        return cut_out(wide, tops, lefts, height=images.shape[2], width=images.shape[3])


class RandomResizedCrop(ImageAugmentation):
    """A part of any place, area and shape, enlarged to the size of the whole (https://arxiv.org/abs/1409.4842)."""

    def __init__(
        self, smallest_share: Share = 0.08, largest_share: Share = 1.0, largest_ratio: AtLeastOne = 4 / 3
    ) -> None:
        """`largest_ratio` of one side to the other."""
        self.shares = checked_span(smallest_share, largest_share, "share")
        if largest_ratio < 1:
            raise DataError(f"augmentation largest_ratio={largest_ratio} must be at least 1.")
        self.largest_ratio = largest_ratio

    def changed(self, images: Images, draws: Draws) -> Images:
        height, width = images.shape[2:]
        drawn = draws.uniform(2 * _NUM_TRIES + 2)
        shares = between(drawn[:, :_NUM_TRIES], *self.shares)
        ratios = np.exp(between(drawn[:, _NUM_TRIES:-2], -1, 1) * math.log(self.largest_ratio))
        across, down = np.sqrt(shares * ratios), np.sqrt(shares / ratios)
        # The first of some tries that fits; where none does, as much of it as there is.
        first = np.argmax((across <= 1) & (down <= 1), axis=1)
        rows = np.arange(len(first))
        across, down = np.minimum(across[rows, first], 1), np.minimum(down[rows, first], 1)
        x = between(drawn[:, -2], -1, 1) * (1 - across) * width / 2
        y = between(drawn[:, -1], -1, 1) * (1 - down) * height / 2
        matrices = enlargements(*(numbers(column, images) for column in (x, y, across, down)))
        return transformed(images.float(), matrices, fill=None).to(images.dtype)
