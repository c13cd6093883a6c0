"""Random erasing (Zhong, Zheng, Kang, Li and Yang 2017, https://arxiv.org/abs/1708.04896)."""

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
    checked_share,
    checked_span,
    whole_between,
)
from headtohead.data.contracts import DataError
from headtohead.data.pixels.colours import BRIGHTEST
from headtohead.data.pixels.noise import noise
from headtohead.data.pixels.places import rectangles
from headtohead.ranges import AtLeastOne, Share

Filling = Literal["noise", "black", "mean"]
_NUM_TRIES = 10
_LARGEST_KEY = 2**53


class RandomErasing(ImageAugmentation):
    """A rectangle of a share of the images is filled: with noise, with black, or with the mean that the data's pixels
    are told from."""

    def __init__(
        self,
        share: Share = 0.25,
        smallest_share: Share = 0.02,
        largest_share: Share = 0.33,
        largest_ratio: AtLeastOne = 3.3,
        filling: Filling = "noise",
    ) -> None:
        """`smallest_share` and `largest_share` of the image's area."""
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
        tops, lefts = (
            whole_between(drawn[:, axis - 3], 0, size - sizes[:, axis]) for axis, size in enumerate((height, width))
        )
        which = torch.from_numpy(own).to(images.device)
        places = (torch.from_numpy(column).to(images.device) for column in (tops, lefts, sizes[:, 0], sizes[:, 1]))
        inside = rectangles(*places, height=height, width=width)
        erased = images.clone()
        erased[which] = torch.where(inside, self._filled(images[which], drawn[:, -1]), images[which])
        return erased

    def _sizes(self, drawn: np.ndarray, height: int, width: int) -> np.ndarray:
        """Heights and widths: the first of some tries that fits; where none does, as much of it as there is."""
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
        whole = torch.from_numpy((keys * _LARGEST_KEY).astype(np.int64)).to(images.device)
        levels = noise(whole, images[0].numel()).view_as(images) * BRIGHTEST
        return self.scale.images(levels).to(images.dtype)
