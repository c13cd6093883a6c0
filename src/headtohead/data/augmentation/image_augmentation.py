"""Image augmentations share where they happen and the ranges of their parameters."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.data.augmentation.augmentation import Augmentation, Draws
from headtohead.data.augmentation.image_operations import PixelScale
from headtohead.data.batches.batch import Batch
from headtohead.data.data_source import DataError, DataSource

Images = Float[Tensor, "B C H W"]


class ImageAugmentation(Augmentation):
    """Subclasses move the numbers that the model reads, whatever their meaning."""

    data_kinds: ClassVar[tuple[str, ...]] = ("images",)
    cannot: ClassVar[dict[str, str]] = dict.fromkeys(
        ("language", "labelled_text", "tagged_text", "questions", "pairs_of_text", "similarity"), "it has no images"
    )
    on_device: ClassVar[bool] = True
    scale: PixelScale

    def bind(self, source: DataSource) -> None:
        spec = source.spec()
        self.scale = PixelScale.of(spec)
        assert spec.image_shape is not None
        self.check(*spec.image_shape[1:])

    def check(self, height: int, width: int) -> None:
        """Raises DataError where images of this size cannot be changed so; most can."""
        del height, width

    def __call__(self, batch: Batch, draws: Draws) -> Batch:
        assert batch.images is not None, "bind refuses data without images"
        return replace(batch, images=self.changed(batch.images, draws))

    @abstractmethod
    def changed(self, images: Images, draws: Draws) -> Images:
        """Return other images of the same size."""


class LevelAugmentation(ImageAugmentation):
    """Subclasses change brightness and colours: integers from 0 to 255, as in a picture's file."""

    def changed(self, images: Images, draws: Draws) -> Images:
        return self.scale.images(self.recoloured(self.scale.levels(images), draws)).to(images.dtype)

    @abstractmethod
    def recoloured(self, levels: Images, draws: Draws) -> Images:
        """Return images with other levels."""


def numbers(column: np.ndarray, images: Tensor) -> Float[Tensor, " B"]:
    """Return one number for each image, on the images' device."""
    return torch.from_numpy(column.astype(np.float32)).to(images.device)


def between(drawn: np.ndarray, low: float, high: float) -> np.ndarray:
    """Scale uniform numbers from [0, 1) to the range from `low` to `high`."""
    return low + (high - low) * drawn


def integers_between(drawn: np.ndarray, low: np.ndarray | int, high: np.ndarray | int) -> np.ndarray:
    """Scale uniform numbers to integers, both ends included."""
    array: np.ndarray = low + np.floor(drawn * (np.asarray(high) - low + 1)).astype(np.int64)
    return array


def checked_share(share: float, field: str) -> float:
    if not 0 <= share <= 1:
        raise DataError(f"augmentation {field}={share} must be from 0 to 1.")
    return share


def checked_span(smallest: float, largest: float, field: str, *, most: float = 1.0) -> tuple[float, float]:
    """Check the range of an image's area, or of its sides, that an operation takes."""
    if not 0 < smallest <= largest <= most:
        raise DataError(
            f"augmentation smallest_{field}={smallest} and largest_{field}={largest} must be above 0, in this order, "
            f"and at most {most:g}."
        )
    return smallest, largest
