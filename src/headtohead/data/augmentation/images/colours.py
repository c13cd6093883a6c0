"""Other light and other colours."""

from __future__ import annotations

from headtohead.data.augmentation.contracts import Draws
from headtohead.data.augmentation.images.base import Images, LevelAugmentation, between, numbers
from headtohead.data.contracts import DataError
from headtohead.data.pixels.colours import brightened, contrasted, hue_turned, saturated
from headtohead.ranges import NotNegative, Real

_WHOLE_TURN = 0.5
"""Of the colour circle, in each direction."""


class ColourJitter(LevelAugmentation):
    """Brightness, contrast, saturation and hue of each image, one after another: the first three by factors from
    1 - strength to 1 + strength, hue by up to such a share of the colour circle either way. Grey images have no
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
        for place, (change, strength) in enumerate(zip((brightened, contrasted, saturated), strengths, strict=True)):
            if strength:
                factors = between(drawn[:, place], max(0.0, 1 - strength), 1 + strength)
                levels = change(levels, numbers(factors, levels))
        return hue_turned(levels, numbers(between(drawn[:, 3], -self.hue, self.hue), levels)) if self.hue else levels
