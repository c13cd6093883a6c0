"""Random erasing (Zhong, Zheng, Kang, Li and Yang 2017, https://arxiv.org/abs/1708.04896)."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headtohead.data.augmentation.augmentation import Draws
from headtohead.data.augmentation.images.colour_operations import BRIGHTEST
from headtohead.data.augmentation.images.geometry import rectangles
from headtohead.data.augmentation.images.image_augmentation import (
    ImageAugmentation,
    Images,
    between,
    checked_share,
    checked_span,
    integers_between,
)
from headtohead.data.data_source import DataError
from headtohead.ranges import AtLeastOne, Share

_BITS = 64
_GAMMA, _FIRST, _SECOND = (
    int(np.uint64(number).astype(np.int64)) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_RETAINED = 24
"""Bits of a number between 0 and 1: all that 32-bit floats hold."""


def noise(keys: Int[Tensor, " B"], size: int) -> Float[Tensor, "B N"]:
    """Return numbers in [0, 1) that differ for every key."""
    indices = torch.arange(1, size + 1, device=keys.device)
    mixed = _mix(_mix(keys)[:, None] + indices * _GAMMA)
    return _shifted(mixed, _BITS - _RETAINED).float() * 2.0**-_RETAINED


def _mix(z: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    z = (z ^ _shifted(z, 30)) * _FIRST
    z = (z ^ _shifted(z, 27)) * _SECOND
    return z ^ _shifted(z, 31)


def _shifted(z: Int[Tensor, "..."], by: int) -> Int[Tensor, "..."]:
    """Shift right, with zeros from the left, whatever the sign."""
    return (z >> by) & ((1 << (_BITS - by)) - 1)


Filling = Literal["noise", "black", "mean"]
_NUM_TRIES = 10
_LARGEST_KEY = 2**53


class RandomErasing(ImageAugmentation):
    """A rectangle in a share of the images is filled: with noise, with black, or with the mean that the data's pixels
    are normalised by."""

    def __init__(
        self,
        share: Share = 0.25,
        smallest_share: Share = 0.02,
        largest_share: Share = 0.33,
        largest_ratio: AtLeastOne = 3.3,
        filling: Filling = "noise",
    ) -> None:
        """Set up the erasing; `smallest_share` and `largest_share` are shares of the image's area."""
        self.share, self.shares = checked_share(share, "share"), checked_span(smallest_share, largest_share, "share")
        if largest_ratio < 1:
            raise DataError(f"augmentation largest_ratio={largest_ratio} must be at least 1.")
        if filling not in get_args(Filling):
            raise DataError(f"augmentation filling={filling} is unknown: choose {', '.join(get_args(Filling))}.")
        self.largest_ratio, self.filling = largest_ratio, filling

    def changed(self, images: Images, draws: Draws) -> Images:
        own = np.flatnonzero(draws.uniform(1)[:, 0] < self.share)
        if not len(own):
            return images
        height, width = images.shape[2:]
        drawn = draws.uniform(2 * _NUM_TRIES + 3, part=1)[own]
        sizes = self._sizes(drawn[:, : 2 * _NUM_TRIES], height, width)
        top, left = (
            integers_between(drawn[:, axis - 3], 0, size - sizes[:, axis]) for axis, size in enumerate((height, width))
        )
        which = torch.from_numpy(own).to(images.device)
        indices = (torch.from_numpy(column).to(images.device) for column in (top, left, sizes[:, 0], sizes[:, 1]))
        inside = rectangles(*indices, height=height, width=width)
        erased = images.clone()
        erased[which] = torch.where(inside, self._filled(images[which], drawn[:, -1]), images[which])
        return erased

    def _sizes(self, drawn: np.ndarray, height: int, width: int) -> np.ndarray:
        """Return heights and widths: the first of some tries that fits; where none does, the largest rectangle that
        fits."""
        areas = between(drawn[:, :_NUM_TRIES], *self.shares) * height * width
        ratios = np.exp(between(drawn[:, _NUM_TRIES:], -1, 1) * math.log(self.largest_ratio))
        sizes = np.maximum(np.stack([np.sqrt(areas * ratios), np.sqrt(areas / ratios)], axis=-1).round(), 1)
        first = np.argmax((sizes <= (height, width)).all(-1), axis=1)
        array: np.ndarray = np.minimum(sizes[np.arange(len(first)), first], (height, width)).astype(np.int64)
        return array

    def _filled(self, images: Images, keys: np.ndarray) -> Images:
        if self.filling == "mean":
            return torch.zeros_like(images)
        if self.filling == "black":
            return self.scale.of_level(0, images).expand_as(images)
        integers = torch.from_numpy((keys * _LARGEST_KEY).astype(np.int64)).to(images.device)
        levels = noise(integers, images[0].numel()).view_as(images) * BRIGHTEST
        return self.scale.images(levels).to(images.dtype)
