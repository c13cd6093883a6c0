"""Two images in one, with both their classes in proportion: Mixup (Zhang, Cisse, Dauphin and Lopez-Paz 2017,
https://arxiv.org/abs/1710.09412) and CutMix (Yun et al. 2019, https://arxiv.org/abs/1905.04899).

Neighbours of the shuffled batch are partners, the first and the second, the third and the fourth; each of the two gets
a share of its own. An image without a partner, the last of an odd number, stays as it is. So a batch is mixed in the
same way however it is divided among devices and in time, as long as every part has an even number of rows.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from headtohead.data.augmentation.augmentation import Draws
from headtohead.data.augmentation.images.geometry import rectangles
from headtohead.data.augmentation.images.image_augmentation import (
    ImageAugmentation,
    Images,
    checked_share,
    integers_between,
    numbers,
)
from headtohead.data.batches.batch import Batch
from headtohead.data.data_source import DataError, DataSource
from headtohead.ranges import Positive, Share


class Mixing(ImageAugmentation):
    """Subclasses define how two images become one, and the share of each."""

    changes_classes = True

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
