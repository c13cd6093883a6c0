"""Mirrored images."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

import torch

from headtohead.data.augmentation.contracts import Draws
from headtohead.data.augmentation.images.base import ImageAugmentation, Images, checked_share
from headtohead.data.contracts import DataError
from headtohead.data.pixels.places import flipped
from headtohead.ranges import Share

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
