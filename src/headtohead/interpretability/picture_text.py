"""Text in pictures: strips of labels along the axes of a map."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from headtohead.components.component import Grid
from headtohead.data.data_source import DataSpec
from headtohead.interpretability.recorded_attention import AttentionMaps, Source

Labels = list[list[str]]
"""One label per position, for each sample."""
_VISIBLE = str.maketrans({" ": "␣", "\n": "↵", "\t": "→", "\r": "↵"})


def axis_labels(
    maps: AttentionMaps, inputs: Mapping[str, Tensor], spec: DataSpec, decode: Callable[[Sequence[int]], str]
) -> tuple[Labels, Labels]:
    """Return the labels of the queries and of the keys."""
    rows, _, length, num_keys = maps.weights.shape

    def named(source: Source, indices: int) -> Labels:
        if source == "features":
            return [[str(index) for index in range(indices)]] * rows
        if maps.grid is not None:
            return [patch_labels(maps.grid, indices)] * rows
        if source == "images":
            _, _, height, width = inputs["images"].shape
            return [patch_labels((height, width), indices)] * rows
        return [token_labels(row.tolist(), spec, decode) for row in inputs[source]]

    return named(maps.queries, length), named(maps.keys, num_keys)


def token_labels(ids: Sequence[int], spec: DataSpec, decode: Callable[[Sequence[int]], str]) -> list[str]:
    """Return one label per token, never empty: special tokens show their names, and white space a visible sign."""
    special = {spec.pad_id: "<pad>", spec.bos_id: "<bos>", spec.eos_id: "<eos>", spec.mask_id: "<mask>"}
    return [decode([token]).translate(_VISIBLE) or special.get(token, f"#{token}") for token in ids]


def patch_labels(grid: Grid, indices: int) -> list[str]:
    """Return "row,column" for each patch; positions before the patches are the class token."""
    rows, columns = grid
    patches = [f"{row},{column}" for row in range(rows) for column in range(columns)]
    return ["<cls>"] * (indices - len(patches)) + patches


PAPER = (255, 255, 255)
INK = (38, 38, 46)
_FAINT = (150, 150, 160)
"""The colour of special tokens: <pad>, <bos> ..."""
_SPECIAL = re.compile(r"<\w+>")
_GAP = 3
"""Pixels between a label and its map."""
_LONGEST = 12
"""Characters of a label; what is longer ends in an ellipsis."""


@lru_cache(maxsize=8)
def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Load DejaVu Sans, which covers most alphabets, from matplotlib's files, else Pillow's own font, which covers
    ASCII."""
    package = find_spec("matplotlib")
    if package is not None and package.origin is not None:
        file = Path(package.origin).parent / "mpl-data" / "fonts" / "ttf" / "DejaVuSans.ttf"
        if file.is_file():
            return ImageFont.truetype(str(file), size)
    return ImageFont.load_default(size)


def text_width(text: str, size: int) -> int:
    return round(font(size).getlength(text))


def side_strip(labels: Sequence[str], cell: int) -> np.ndarray:
    """Draw labels below each other, one per cell of that height, aligned with the map on their right."""
    return _lines(tuple(labels), cell, to_the_right=True)


def top_strip(labels: Sequence[str], cell: int) -> np.ndarray:
    """Draw labels beside each other, one per cell of that width, read upwards from the map below them."""
    return np.rot90(_lines(tuple(labels), cell, to_the_right=False))


@lru_cache(maxsize=64)  # the layers of a model share their labels
def _lines(labels: tuple[str, ...], cell: int, *, to_the_right: bool) -> np.ndarray:
    shown, size = [_truncated(label) for label in labels], min(11, cell - 3)
    width = max(text_width(label, size) for label in shown) + 2 * _GAP
    picture = Image.new("RGB", (width, cell * len(shown)), PAPER)
    draw = ImageDraw.Draw(picture)
    x, anchor = (width - _GAP, "rm") if to_the_right else (_GAP, "lm")
    for index, label in enumerate(shown):
        ink = _FAINT if _SPECIAL.fullmatch(label) else INK
        draw.text((x, cell * (index + 0.5)), label, fill=ink, font=font(size), anchor=anchor)
    return np.asarray(picture)


def _truncated(label: str) -> str:
    return label if len(label) <= _LONGEST else label[: _LONGEST - 1] + "…"
