"""Figures for files: lengths and classes per split, grids of images."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from headtohead.files.atomic_write import replace_figure
from headtohead.finished_runs.probe.data_page import edges_of, lengths_of, varied
from headtohead.finished_runs.probe.data_seen import ProbedData, ProbedSample
from headtohead.finished_runs.probe.small_images import enlarged, pixels_of, save
from headtohead.interpretability.picture_text import INK, PAPER, font

_COLOUR = "#3651c9"
_COLUMNS, _GAP, _LINE = 8, 6, 20
"""Images in a line, and pixels around and below each."""
_SIZES = (13, 11, 9)
"""The sizes of the letters of labels: the largest that fits is taken."""
_MOST_NAMED = 24
"""Classes whose names fit below their bars."""


def figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(made)
    return made


def data_figure(seen: ProbedData, path: Path) -> Path:
    """Histograms of lengths, and shares of classes: a line per quantity, a column per split."""
    lengths = varied(seen)
    with_classes = any(split.classes is not None for split in seen.splits)
    lines = len(lengths) + with_classes
    drawn = figure(4.2 * len(seen.splits), 2.6 * lines)
    axes = drawn.subplots(lines, len(seen.splits), squeeze=False)
    for column, split in enumerate(seen.splits):
        for line, what in enumerate(lengths):
            own = axes[line][column]
            if what not in split.lengths:
                own.set_axis_off()
                continue
            own.hist(split.lengths[what], bins=edges_of(lengths_of(seen, what)), color=_COLOUR)
            own.set_title(f"{split.name}: {what}", fontsize=9)
        if with_classes and split.classes is not None:
            _classes(axes[-1][column], split.classes, seen.spec.class_names, split.name)
    for own in axes.flat:
        own.tick_params(labelsize=8)
        own.spines[["top", "right"]].set_visible(False)
    replace_figure(path, drawn, dpi=120)
    return path


def image_grid(seen: ProbedData, path: Path) -> Path:
    """Return the images with their labels below; where they are augmented, each after what it was."""
    tiles = [_labelled(sample) for sample in seen.samples if sample.image is not None]
    columns = min(_COLUMNS // 2 if seen.augmented_by else _COLUMNS, len(tiles))
    lines = math.ceil(len(tiles) / columns)
    height, width = tiles[0].shape[:2]
    grid = np.full((lines * height, columns * width, 3), PAPER, dtype=np.uint8)
    for index, tile in enumerate(tiles):
        line, column = divmod(index, columns)
        grid[line * height : (line + 1) * height, column * width : (column + 1) * width] = tile
    return save(grid, path)


def _labelled(sample: ProbedSample) -> np.ndarray:
    """Return the image, what it was before it where that is another, and the label below both."""
    assert sample.image is not None
    before = None if sample.original is None else sample.original.image
    pictures = [enlarged(pixels_of(image)) for image in (before, sample.image) if image is not None]
    height, width = pictures[0].shape[:2]
    whole = len(pictures) * (width + _GAP) + _GAP
    tile = Image.new("RGB", (whole, height + 2 * _GAP + _LINE), PAPER)
    for index, pixels in enumerate(pictures):
        tile.paste(Image.fromarray(np.ascontiguousarray(pixels)), (_GAP + index * (width + _GAP), _GAP))
    draw, label = ImageDraw.Draw(tile), sample.label or ""
    size = next((size for size in _SIZES if draw.textlength(label, font=font(size)) <= whole), _SIZES[-1])
    draw.text((whole / 2, _GAP + height + 3), label, fill=INK, font=font(size), anchor="ma")
    return np.asarray(tile)


def plain(text: str) -> str:
    """Escape the sign that begins a formula."""
    return text.replace("$", r"\$")


def _classes(axes: Any, counts: np.ndarray, names: tuple[str, ...], split: str) -> None:
    axes.bar(np.arange(len(counts)), counts / max(counts.sum(), 1), color=_COLOUR)
    axes.set_title(f"{split}: share of each class", fontsize=9)
    if len(names) == len(counts) <= _MOST_NAMED:
        longest = max(map(len, names))
        axes.set_xticks(np.arange(len(counts)), [plain(name) for name in names], rotation=0 if longest < 4 else 60)
