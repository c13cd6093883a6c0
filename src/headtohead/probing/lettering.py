"""Text in pictures: strips of labels along the axes of a map."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

PAPER = (255, 255, 255)
INK = (38, 38, 46)
_FAINT = (150, 150, 160)
"""For what stands for no text: <pad>, <bos> ..."""
_SPECIAL = re.compile(r"<\w+>")
_GAP = 3
"""Pixels between a label and its map."""
_LONGEST = 12
"""Characters of a label; what is longer ends in an ellipsis."""


@lru_cache(maxsize=8)
def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """DejaVu Sans, which knows most alphabets, from matplotlib's files; else the one in Pillow, which knows ASCII."""
    found = find_spec("matplotlib")
    if found is not None and found.origin is not None:
        file = Path(found.origin).parent / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf"
        if file.is_file():
            return ImageFont.truetype(str(file), size)
    return ImageFont.load_default(size)


def text_width(text: str, size: int) -> int:
    return round(font(size).getlength(text))


def side_strip(labels: Sequence[str], cell: int) -> np.ndarray:
    """Labels below each other, one per cell of that height, that end at the map on their right."""
    return _lines(tuple(labels), cell, to_the_right=True)


def top_strip(labels: Sequence[str], cell: int) -> np.ndarray:
    """Labels beside each other, one per cell of that width, read upwards, that begin at the map below them."""
    return np.rot90(_lines(tuple(labels), cell, to_the_right=False))


@lru_cache(maxsize=64)  # the layers of a model share their labels
def _lines(labels: tuple[str, ...], cell: int, *, to_the_right: bool) -> np.ndarray:
    shown, size = [_shortened(label) for label in labels], min(11, cell - 3)
    width = max(text_width(label, size) for label in shown) + 2 * _GAP
    picture = Image.new("RGB", (width, cell * len(shown)), PAPER)
    draw = ImageDraw.Draw(picture)
    x, anchor = (width - _GAP, "rm") if to_the_right else (_GAP, "lm")
    for place, label in enumerate(shown):
        ink = _FAINT if _SPECIAL.fullmatch(label) else INK
        draw.text((x, cell * (place + 0.5)), label, fill=ink, font=font(size), anchor=anchor)
    return np.asarray(picture)


def _shortened(label: str) -> str:
    return label if len(label) <= _LONGEST else label[: _LONGEST - 1] + "…"
