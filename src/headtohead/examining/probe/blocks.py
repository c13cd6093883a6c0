"""Images in a terminal: two pixels, one above the other, in each character."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text
from torch import Tensor
from torch.nn import functional as F

from headtohead.examining.probe.pictures import pixels_of

_WIDEST = 24
"""Characters; larger images are shown smaller."""
_UPPER_HALF = "▀"
_SHADES = " ░▒▓█"


class Blocks:
    """An image of numbers between -1 and 1, as `pixels_of` takes them; in shades where the terminal has no colours."""

    def __init__(self, image: Float[Tensor, "C H W"]) -> None:
        height, width = image.shape[1:]
        times = max(1.0, max(height, width) / _WIDEST)
        lines, columns = (max(1, round(size / times)) for size in (height, width))
        smaller = F.interpolate(image.float()[None], (lines + lines % 2, columns), mode="area")[0]
        self._pixels = pixels_of(smaller)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del options
        for line in range(0, len(self._pixels), 2):
            text = Text(no_wrap=True)
            for upper, lower in zip(self._pixels[line], self._pixels[line + 1], strict=True):
                if console.color_system is None:
                    text.append(_SHADES[(int(upper.mean()) + int(lower.mean())) * len(_SHADES) // 512])
                else:
                    text.append(_UPPER_HALF, style=f"{_colour(upper)} on {_colour(lower)}")
            yield text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        del console, options
        width = self._pixels.shape[1]
        return Measurement(width, width)


def _colour(levels: np.ndarray) -> str:
    red, green, blue = (int(level) for level in levels)
    return f"rgb({red},{green},{blue})"
