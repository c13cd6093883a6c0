"""Two images in one, with both their classes in proportion: Mixup (Zhang, Cisse, Dauphin and Lopez-Paz 2017,
https://arxiv.org/abs/1710.09412) and CutMix (Yun et al. 2019, https://arxiv.org/abs/1905.04899); or noise for a part of
an image: random erasing (Zhong, Zheng, Kang, Li and Yang 2017, https://arxiv.org/abs/1708.04896).

Neighbours of the shuffled batch are partners, the first and the second, the third and the fourth; each of the two gets
a share of its own. An image without a partner, the last of an odd number, stays as it is. So a batch is mixed in the
same way however it is divided among devices and in time, as long as every part has an even number of rows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from headtohead.data.augmentation.augmentation import Draws
from headtohead.data.augmentation.image_augmentation import (
    ImageAugmentation,
    Images,
    between,
    checked_share,
    checked_span,
    integers_between,
    numbers,
)
from headtohead.data.augmentation.image_operations import BRIGHTEST, rectangles
from headtohead.data.batches.batch import Batch
from headtohead.data.data_source import DataError, DataSource
from headtohead.ranges import AtLeastOne, Positive, Share


class Mixing(ImageAugmentation):
    """Subclasses define how two images become one, and the share of each."""

    changes_classes = True
    pairs_rows = True

    def __init__(self, alpha: float, share: float) -> None:
        """Set up the mixing: shares of the first image are drawn from Beta(alpha, alpha), for a `share` of the
        images."""
        if alpha <= 0:
            raise DataError(f"augmentation alpha={alpha} must be above 0: the larger, the more alike are both shares.")
        self.alpha, self.share = alpha, checked_share(share, "share")
        self.num_classes = 0

    def bind(self, source: DataSource) -> None:
        super().bind(source)
        self.num_classes = source.spec().num_classes

    @abstractmethod
    def mixed(
        self, images: Images, others: Images, shares: np.ndarray, draws: Draws
    ) -> tuple[Images, Float[Tensor, " B"]]:
        """Return other images, and the share of each one's own class; a share of 1 leaves an image as it is."""

    def __call__(self, batch: Batch, draws: Draws) -> Batch:
        assert batch.images is not None and batch.targets is not None, "bind refuses data without images"
        partners = torch.from_numpy(_partners(batch.num_samples)).to(batch.images.device)
        images, own = self.mixed(batch.images, batch.images[partners], self._shares(draws), draws)
        targets = batch.soft_targets if batch.soft_targets is not None else self._certain(batch.targets)
        soft = own[:, None] * targets + (1 - own[:, None]) * targets[partners]
        return replace(batch, images=images, soft_targets=soft)

    def changed(self, images: Images, draws: Draws) -> Images:
        """Return mixed images, without their classes."""
        partners = torch.from_numpy(_partners(len(images))).to(images.device)
        return self.mixed(images, images[partners], self._shares(draws), draws)[0]

    def _certain(self, targets: Int[Tensor, " B"]) -> Float[Tensor, "B C"]:
        return F.one_hot(targets, self.num_classes).float()

    def _shares(self, draws: Draws) -> np.ndarray:
        from scipy.special import betaincinv

        drawn = draws.uniform(2)
        return np.where(drawn[:, 1] < self.share, betaincinv(self.alpha, self.alpha, drawn[:, 0]), 1.0)


class Mixup(Mixing):
    """Every pixel is the mean of both, by their shares."""

    def __init__(self, alpha: Positive = 0.2, share: Share = 1.0) -> None:
        super().__init__(alpha, share)

    def mixed(
        self, images: Images, others: Images, shares: np.ndarray, draws: Draws
    ) -> tuple[Images, Float[Tensor, " B"]]:
        del draws
        own = numbers(shares, images)
        weights = own.to(images.dtype)[:, None, None, None]
        return weights * images + (1 - weights) * others, own


class CutMix(Mixing):
    """A rectangle of one image is pasted into the other; their shares are those of the area."""

    def __init__(self, alpha: Positive = 1.0, share: Share = 1.0) -> None:
        super().__init__(alpha, share)

    def mixed(
        self, images: Images, others: Images, shares: np.ndarray, draws: Draws
    ) -> tuple[Images, Float[Tensor, " B"]]:
        height, width = images.shape[2:]
        indices = integers_between(draws.uniform(2, part=1), 0, np.array([height - 1, width - 1]))
        sizes = np.floor(np.sqrt(1 - shares)[:, None] * (height, width)).astype(np.int64)
        corners = indices - sizes // 2
        columns = (corners[:, 0], corners[:, 1], sizes[:, 0], sizes[:, 1])
        inside = rectangles(
            *(torch.from_numpy(column).to(images.device) for column in columns), height=height, width=width
        )
        return torch.where(inside, others, images), 1 - inside.float().mean((1, 2, 3))


def _partners(size: int) -> np.ndarray:
    """Return the neighbour of each image; of an odd number, the last is its own."""
    array: np.ndarray = np.minimum(np.arange(size) ^ 1, size - 1)
    return array


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
