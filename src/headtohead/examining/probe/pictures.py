"""Small pictures for pages and files: images as PNG, and attention drawn over them."""

from __future__ import annotations

import base64
import math
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
from torch import Tensor

from headtohead.components.contracts import Grid
from headtohead.probing.attention import AttentionMaps
from headtohead.probing.lettering import INK, PAPER, font

_TILE = 128
"""Pixels of an image's longer side, at least."""
_GAP, _LINE = 10, 18
_VEIL = (255, 110, 40)


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
    file = BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(file, "PNG")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def save(pixels: np.ndarray, path: Path) -> Path:
    Image.fromarray(np.ascontiguousarray(pixels)).save(path)
    return path


def over_images(maps: AttentionMaps, images: Tensor) -> np.ndarray:
    """A line per sample: the image, then each head's weights on its patches as warm light over the grey image.

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
        veils = [_veiled(plain, own.reshape(rows, columns), maps.grid) for own in by_head]
        lines.append(np.concatenate([_framed(tile) for tile in (plain, *veils)], axis=1))
    picture = np.concatenate(lines)
    titled = np.full((picture.shape[0] + 2 * _LINE, picture.shape[1], 3), PAPER, dtype=np.uint8)
    titled[2 * _LINE :] = picture
    drawn = Image.fromarray(titled)
    draw = ImageDraw.Draw(drawn)
    of = "the class token" if leading else "all patches, on average"
    draw.text((_GAP, 3), f"{maps.name}: where {of} look{'s' if leading else ''}", fill=INK, font=font(12))
    step = picture.shape[1] // (1 + seen.shape[1])
    for place in range(1 + seen.shape[1]):
        draw.text((_GAP + place * step, _LINE + 3), f"head {place - 1}" if place else "image", fill=INK, font=font(11))
    return np.asarray(drawn)


def _veiled(plain: np.ndarray, weights: np.ndarray, grid: Grid) -> np.ndarray:
    """The strongest patch is the warmest; the image stays visible below."""
    height, width = plain.shape[:2]
    share = weights / max(float(weights.max()), 1e-12)
    rows, columns = (np.arange(size) * cells // size for size, cells in ((height, grid[0]), (width, grid[1])))
    strength = (0.08 + 0.7 * share[rows][:, columns])[..., None]
    grey = plain.mean(2, keepdims=True) * np.ones(3)
    array: np.ndarray = np.rint((1 - strength) * grey + strength * np.array(_VEIL)).astype(np.uint8)
    return array


def _framed(tile: np.ndarray) -> np.ndarray:
    return np.pad(tile, ((_GAP // 2, _GAP // 2), (_GAP, 0), (0, 0)), constant_values=255)
