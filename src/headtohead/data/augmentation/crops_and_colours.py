"""Crops, flips and other light: an image's part of the same size or of any size, mirrored, or in other colours.

RandAugment (Cubuk, Zoph, Shlens and Le 2019, https://arxiv.org/abs/1909.13719): some changes drawn from fourteen,
all with the same strength.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from headtohead.data.augmentation import image_operations
from headtohead.data.augmentation.augmentation import Draws
from headtohead.data.augmentation.image_augmentation import (
    ImageAugmentation,
    Images,
    LevelAugmentation,
    between,
    checked_share,
    checked_span,
    integers_between,
    numbers,
)
from headtohead.data.augmentation.image_operations import (
    bordered,
    brightened,
    contrasted,
    cut_out,
    enlargements,
    flipped,
    hue_turned,
    saturated,
    transformed,
)
from headtohead.data.data_source import DataError
from headtohead.ranges import Amount, AtLeastOne, Count, Length, NotNegative, Real, Share

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
        indices = integers_between(draws.uniform(2), 0, 2 * self.margin)
        top, left = (torch.from_numpy(indices[:, axis]).to(images.device) for axis in (0, 1))
        return cut_out(wide, top, left, height=images.shape[2], width=images.shape[3])


class RandomResizedCrop(ImageAugmentation):
    """A crop of random position, area and shape, enlarged to the size of the whole
    (https://arxiv.org/abs/1409.4842)."""

    def __init__(
        self, smallest_share: Share = 0.08, largest_share: Share = 1.0, largest_ratio: AtLeastOne = 4 / 3
    ) -> None:
        """Set up the crop; `largest_ratio` bounds the ratio of one side to the other."""
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


Direction = Literal["left_right", "up_down"]


class Flip(ImageAugmentation):
    """A share of the images, each time others."""

    _axes: ClassVar[dict[str, int]] = {"left_right": -1, "up_down": -2}

    def __init__(self, direction: Direction = "left_right", share: Share = 0.5) -> None:
        if direction not in get_args(Direction):
            raise DataError(
                f"augmentation direction={direction} is unknown: choose {' or '.join(get_args(Direction))}."
            )
        self.direction, self.share = direction, checked_share(share, "share")

    def changed(self, images: Images, draws: Draws) -> Images:
        which = torch.from_numpy(draws.uniform(1)[:, 0] < self.share).to(images.device)
        return flipped(images, which, axis=self._axes[self.direction])


_WHOLE_TURN = 0.5
"""The share of the colour circle, in each direction."""


class ColourJitter(LevelAugmentation):
    """Brightness, contrast, saturation and hue of each image, one after another: the first three by factors from 1 -
    strength to 1 + strength, hue by up to such a share of the colour circle in either direction. Grey images have no
    saturation and no hue."""

    def __init__(
        self, brightness: NotNegative = 0.4, contrast: NotNegative = 0.4, saturation: NotNegative = 0.4, hue: Real = 0.1
    ) -> None:
        for name, value in (("brightness", brightness), ("contrast", contrast), ("saturation", saturation)):
            if value < 0:
                raise DataError(f"augmentation {name}={value} must be at least 0, which changes nothing.")
        if not 0 <= hue <= _WHOLE_TURN:
            raise DataError(f"augmentation hue={hue} must be from 0 to {_WHOLE_TURN}, the opposite colour.")
        self.brightness, self.contrast, self.saturation, self.hue = brightness, contrast, saturation, hue

    def recoloured(self, levels: Images, draws: Draws) -> Images:
        drawn = draws.uniform(4)
        strengths = (self.brightness, self.contrast, self.saturation)
        for index, (change, strength) in enumerate(zip((brightened, contrasted, saturated), strengths, strict=True)):
            if strength:
                factors = between(drawn[:, index], max(0.0, 1 - strength), 1 + strength)
                levels = change(levels, numbers(factors, levels))
        return hue_turned(levels, numbers(between(drawn[:, 3], -self.hue, self.hue), levels)) if self.hue else levels


STRONGEST = 30
"""The strongest level of the paper's scale; each change's amount there is AutoAugment's largest
(https://arxiv.org/abs/1805.09501)."""
GREY = 128.0
"""The grey that an image leaves when it moves."""
_SHEAR, _SHIFT, _TURN, _ENHANCEMENT, _FEWEST_BITS, _ALL_BITS = 0.3, 150 / 331, 30.0, 0.9, 4, 8

Change = Callable[[Images, Tensor], Images]


def _moved(matrices: Callable[[Tensor], Tensor]) -> Change:
    return lambda levels, amounts: image_operations.transformed(levels, matrices(amounts), fill=GREY)


def _enhanced(change: Change) -> Change:
    return lambda levels, amounts: change(levels, 1 + _ENHANCEMENT * amounts)


CHANGES: Mapping[str, Change] = {
    "identity": lambda levels, _: levels,
    "autocontrast": lambda levels, _: image_operations.autocontrasted(levels),
    "equalise": lambda levels, _: image_operations.equalised(levels),
    "rotate": _moved(lambda amounts: image_operations.turns(_TURN * amounts)),
    "solarise": lambda levels, amounts: image_operations.inverted_above(
        levels, (1 - amounts.abs()) * image_operations.BRIGHTEST
    ),
    "colour": _enhanced(image_operations.saturated),
    "posterise": lambda levels, amounts: image_operations.posterised(levels, _bits(amounts)),
    "contrast": _enhanced(image_operations.contrasted),
    "brightness": _enhanced(image_operations.brightened),
    "sharpness": _enhanced(image_operations.sharpened),
    "shear_x": _moved(lambda amounts: image_operations.shears(_SHEAR * amounts, torch.zeros_like(amounts))),
    "shear_y": _moved(lambda amounts: image_operations.shears(torch.zeros_like(amounts), _SHEAR * amounts)),
    "translate_x": lambda levels, amounts: _shifted(levels, amounts, axis=-1),
    "translate_y": lambda levels, amounts: _shifted(levels, amounts, axis=-2),
}
"""The changes by the amount of each image, from -1 to 1: the strongest in either direction. Levels are integers before
and, up to rounding, after."""


class RandAugment(LevelAugmentation):
    """`num_changes` of each image, one after another, any of them more than once; `magnitude` from 0 to 30."""

    def __init__(self, num_changes: Count = 2, magnitude: Amount = 9) -> None:
        if num_changes < 1:
            raise DataError(f"augmentation num_changes={num_changes} must be at least 1.")
        if not 0 <= magnitude <= STRONGEST:
            raise DataError(f"augmentation magnitude={magnitude} must be from 0 to {STRONGEST}.")
        self.num_changes, self.magnitude = num_changes, magnitude

    def recoloured(self, levels: Images, draws: Draws) -> Images:
        drawn = draws.uniform(2 * self.num_changes)
        levels = levels.clone()
        for turn in range(self.num_changes):
            chosen = (drawn[:, 2 * turn] * len(CHANGES)).astype(np.int64)
            signs = np.where(drawn[:, 2 * turn + 1] < 0.5, -1.0, 1.0)
            for number, change in enumerate(CHANGES.values()):
                own = np.flatnonzero(chosen == number)
                if len(own):
                    amounts = numbers(signs[own] * self.magnitude / STRONGEST, levels)
                    which = torch.from_numpy(own).to(levels.device)
                    levels[which] = change(levels[which], amounts).round()
        return levels


def _shifted(levels: Images, amounts: Tensor, *, axis: int) -> Images:
    pixels = _SHIFT * levels.shape[axis] * amounts
    none = torch.zeros_like(pixels)
    matrices = image_operations.shifts(pixels, none) if axis == -1 else image_operations.shifts(none, pixels)
    return image_operations.transformed(levels, matrices, fill=GREY)


def _bits(amounts: Tensor) -> Tensor:
    return _ALL_BITS - ((_ALL_BITS - _FEWEST_BITS) * amounts.abs()).round().long()
