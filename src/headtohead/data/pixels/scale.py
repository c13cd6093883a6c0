"""Between an image's levels, from 0 to 255, and the numbers that a model reads."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.data.contracts import DataSpec
from headtohead.data.pixels.colours import BRIGHTEST

_MIDDLE = 0.5


@dataclass(frozen=True)
class PixelScale:
    """A model reads (level / 255 - mean) / deviation, each channel with its own."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def of(cls, spec: DataSpec) -> PixelScale:
        """From -1 to 1 where the data says nothing else."""
        assert spec.image_shape is not None, "only images have a scale"
        middle = (_MIDDLE,) * spec.image_shape[0]
        return cls(spec.image_mean or middle, spec.image_deviation or middle)

    def levels(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        """Whole numbers."""
        mean, deviation = self._along(images)
        return ((images.float() * deviation + mean) * BRIGHTEST).round().clamp(0, BRIGHTEST)

    def images(self, levels: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        mean, deviation = self._along(levels)
        return (levels / BRIGHTEST - mean) / deviation

    def as_shown(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        """From -1 to 1, whatever a model reads, for pictures of them."""
        return self.levels(images) / (BRIGHTEST / 2) - 1

    def of_level(self, level: float, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "1 C 1 1"]:
        """What a model reads of one level, each channel."""
        mean, deviation = self._along(images)
        return ((level / BRIGHTEST - mean) / deviation).to(images.dtype)

    def _along(self, images: Tensor) -> tuple[Tensor, Tensor]:
        mean, deviation = (
            torch.tensor(numbers, dtype=torch.float32, device=images.device)[:, None, None]
            for numbers in (self.mean, self.deviation)
        )
        return mean[None], deviation[None]
