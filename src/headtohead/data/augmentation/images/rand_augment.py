"""RandAugment (Cubuk, Zoph, Shlens and Le 2019, https://arxiv.org/abs/1909.13719): some changes drawn from fourteen,
all with the same strength."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from headtohead.data.augmentation.augmentation import Draws
from headtohead.data.augmentation.images import colour_operations, geometry
from headtohead.data.augmentation.images.image_augmentation import Images, LevelAugmentation, numbers
from headtohead.data.data_source import DataError
from headtohead.ranges import Amount, Count

STRONGEST = 30
"""The strongest level of the paper's scale; each change's amount there is AutoAugment's largest
(https://arxiv.org/abs/1805.09501)."""
GREY = 128.0
"""The grey that an image leaves when it moves."""
_SHEAR, _SHIFT, _TURN, _ENHANCEMENT, _FEWEST_BITS, _ALL_BITS = 0.3, 150 / 331, 30.0, 0.9, 4, 8

Change = Callable[[Images, Tensor], Images]


def _moved(matrices: Callable[[Tensor], Tensor]) -> Change:
    return lambda levels, amounts: geometry.transformed(levels, matrices(amounts), fill=GREY)


def _enhanced(change: Change) -> Change:
    return lambda levels, amounts: change(levels, 1 + _ENHANCEMENT * amounts)


CHANGES: Mapping[str, Change] = {
    "identity": lambda levels, _: levels,
    "autocontrast": lambda levels, _: colour_operations.autocontrasted(levels),
    "equalise": lambda levels, _: colour_operations.equalised(levels),
    "rotate": _moved(lambda amounts: geometry.turns(_TURN * amounts)),
    "solarise": lambda levels, amounts: colour_operations.inverted_above(
        levels, (1 - amounts.abs()) * colour_operations.BRIGHTEST
    ),
    "colour": _enhanced(colour_operations.saturated),
    "posterise": lambda levels, amounts: colour_operations.posterised(levels, _bits(amounts)),
    "contrast": _enhanced(colour_operations.contrasted),
    "brightness": _enhanced(colour_operations.brightened),
    "sharpness": _enhanced(colour_operations.sharpened),
    "shear_x": _moved(lambda amounts: geometry.shears(_SHEAR * amounts, torch.zeros_like(amounts))),
    "shear_y": _moved(lambda amounts: geometry.shears(torch.zeros_like(amounts), _SHEAR * amounts)),
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
    matrices = geometry.shifts(pixels, none) if axis == -1 else geometry.shifts(none, pixels)
    return geometry.transformed(levels, matrices, fill=GREY)


def _bits(amounts: Tensor) -> Tensor:
    return _ALL_BITS - ((_ALL_BITS - _FEWEST_BITS) * amounts.abs()).round().long()
