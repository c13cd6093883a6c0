"""Small pictures for pages and files: images as PNG, and attention drawn over them."""

from __future__ import annotations

import base64
import math
from io import BytesIO
from pathlib import Path

import numpy as np
from jaxtyping import Float
from PIL import Image, ImageDraw
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text
from torch import Tensor
from torch.nn import functional as F

from headtohead.components.component import Grid
from headtohead.files.atomic_write import replace_bytes
from headtohead.interpretability.layer_words import head_words
from headtohead.interpretability.picture_text import INK, PAPER, font
from headtohead.interpretability.recorded_attention import AttentionMaps

_TILE = 128
"""Pixels of an image's longer side, at least."""
_GAP, _LINE = 10, 18
_OVERLAY = (255, 110, 40)


def pixels_of(image: Tensor) -> np.ndarray:
    """8-bit colours [H, W, 3] of an image [C, H, W] whose numbers run from -1 to 1 (`PixelScale.as_shown`)."""
    levels = ((image.float().clamp(-1, 1) + 1) * 127.5).round().byte().permute(1, 2, 0).numpy()
    return np.broadcast_to(levels[..., :3] if levels.shape[2] >= 3 else levels[..., :1], (*levels.shape[:2], 3))


def enlarged(pixels: np.ndarray) -> np.ndarray:
    """Whole-number enlargement, so that small images can be seen pixel by pixel."""
    times = max(1, math.ceil(_TILE / max(pixels.shape[:2])))
    return pixels.repeat(times, 0).repeat(times, 1)


def as_source(pixels: np.ndarray) -> str:
    """A picture as an address that holds it."""
    return f"data:image/png;base64,{base64.b64encode(_png(pixels)).decode()}"


def save(pixels: np.ndarray, path: Path) -> Path:
    replace_bytes(path, _png(pixels))
    return path


def _png(pixels: np.ndarray) -> bytes:
    content = BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(content, "PNG")
    return content.getvalue()


def over_images(maps: AttentionMaps, images: Tensor) -> np.ndarray:
    """Return a line per sample: the image, then each head's weights on its patches as warm light over the grey image.

    The query is the class token, or the mean over all patches where there is none.
    """
    assert maps.grid is not None, "only maps over patches have images"
    rows, columns = maps.grid
    weights = maps.weights.numpy()
    leading = weights.shape[-1] - rows * columns
    seen = weights[:, :, 0, leading:] if leading else weights.mean(2)
    lines = []
    for image, by_head in zip(images, seen, strict=True):
        plain = enlarged(pixels_of(image))
        overlays = [_overlaid(plain, own.reshape(rows, columns), maps.grid) for own in by_head]
        lines.append(np.concatenate([_framed(tile) for tile in (plain, *overlays)], axis=1))
    picture = np.concatenate(lines)
    titled = np.full((picture.shape[0] + 2 * _LINE, picture.shape[1], 3), PAPER, dtype=np.uint8)
    titled[2 * _LINE :] = picture
    drawn = Image.fromarray(titled)
    draw = ImageDraw.Draw(drawn)
    of = "the class token" if leading else "all patches, on average"
    draw.text((_GAP, 3), f"{maps.name}: where {of} look{'s' if leading else ''}", fill=INK, font=font(12))
    step = picture.shape[1] // (1 + seen.shape[1])
    for index in range(1 + seen.shape[1]):
        draw.text(
            (_GAP + index * step, _LINE + 3), head_words(index - 1) if index else "image", fill=INK, font=font(11)
        )
    return np.asarray(drawn)


def _overlaid(plain: np.ndarray, weights: np.ndarray, grid: Grid) -> np.ndarray:
    """The strongest patch is the warmest; the image stays visible below."""
    height, width = plain.shape[:2]
    share = weights / max(float(weights.max()), 1e-12)
    rows, columns = (np.arange(size) * cells // size for size, cells in ((height, grid[0]), (width, grid[1])))
    strength = (0.08 + 0.7 * share[rows][:, columns])[..., None]
    grey = plain.mean(2, keepdims=True) * np.ones(3)
    array: np.ndarray = np.rint((1 - strength) * grey + strength * np.array(_OVERLAY)).astype(np.uint8)
    return array


def _framed(tile: np.ndarray) -> np.ndarray:
    return np.pad(tile, ((_GAP // 2, _GAP // 2), (_GAP, 0), (0, 0)), constant_values=255)


_WIDEST = 24
"""Characters; larger images are shown smaller."""
_UPPER_HALF = "▀"
_SHADES = " ░▒▓█"


class TerminalImage:
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
