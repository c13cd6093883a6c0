"""All heads of a layer in one picture: a tile per head and sample, on one scale, with tokens along the axes on
request."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from headtohead.interpretability.colour_table import largest_usual, values_to_colours
from headtohead.interpretability.layer_words import head_words, layer_words
from headtohead.interpretability.picture_text import INK, PAPER, Labels, font, side_strip, text_width, top_strip
from headtohead.interpretability.recorded_attention import AttentionMaps

LONGEST_LABELLED = 64
"""Tokens beyond which labels would be too many to read: they are left out."""
_FORBIDDEN = (226, 226, 231)
"""The colour of masked pairs: not that of a small weight."""
_BORDER = (150, 150, 158)
_WIDE = 1800
"""Pixels; tiles beyond go to the next line, unless there are so many that the page would be a tower."""
_MARGIN = 12
_HEADING, _CAPTION = 13, 11
"""Sizes of the letters."""
_ABOVE_TILE = _CAPTION + 8
_TOP = _MARGIN + _HEADING + 14
_SCALE_WIDTH = 96


@dataclass(frozen=True)
class ColourScale:
    """The values of the darkest and the brightest colour."""

    low: float
    high: float
    clipped: bool
    """Whether some weights are larger than the brightest."""

    @property
    def ends(self) -> tuple[str, str]:
        return f"{self.low:.2g}", f"{'≥ ' if self.clipped else ''}{self.high:.2g}"


@dataclass(frozen=True)
class _Layout:
    """Places in pixels; every tile has room for labels at its left and above."""

    cell: int
    left: int
    above: int
    height: int
    width: int
    samples: int
    heads: int

    @property
    def step_down(self) -> int:
        return _ABOVE_TILE + self.above + self.height + 2 + _MARGIN

    @property
    def step_right(self) -> int:
        return self.left + self.width + 2 + _MARGIN

    @property
    def columns(self) -> int:
        """Return the number of columns: samples stand side by side where the heads of several fit, else each takes
        lines of its own."""
        wide = max(_WIDE, math.isqrt(self.samples * self.heads * self.step_right * self.step_down) + self.step_right)
        fitting = max(1, (wide - _MARGIN) // self.step_right)
        if self.heads <= fitting:
            return self.heads * min(self.samples, fitting // self.heads)
        return math.ceil(self.heads / math.ceil(self.heads / fitting))

    @property
    def lines(self) -> int:
        return max(self.tile_position(self.samples - 1, head)[0] for head in range(self.heads)) + 1

    def tile_position(self, sample: int, head: int) -> tuple[int, int]:
        """Return the line and the column of a tile."""
        if self.heads <= self.columns:
            line, across = divmod(sample, self.columns // self.heads)
            return line, across * self.heads + head
        line, column = divmod(head, self.columns)
        return sample * math.ceil(self.heads / self.columns) + line, column


def montage(maps: AttentionMaps, *, queries: Labels | None = None, keys: Labels | None = None) -> np.ndarray:
    """Draw 8-bit colours [height, width, 3]; cells where a query may not attend are grey.

    `queries` and `keys` hold a label per position for each sample; they are left out where there are too many.
    """
    samples, heads, length, num_keys = maps.weights.shape
    sides: list[np.ndarray] = []
    tops: list[np.ndarray] = []
    cell = max(1, 192 // max(length, num_keys))
    if queries is not None and keys is not None and max(length, num_keys) <= LONGEST_LABELLED:
        cell = min(26, max(12, 288 // max(length, num_keys)))
        sides = [side_strip(labels, cell) for labels in queries]
        tops = [top_strip(labels, cell) for labels in keys]
    layout = _Layout(
        cell,
        left=max((strip.shape[1] for strip in sides), default=0),
        above=max((strip.shape[0] for strip in tops), default=0),
        height=cell * length,
        width=cell * num_keys,
        samples=samples,
        heads=heads,
    )
    scale, title = scale_of(maps), heading(maps)
    width = max(_MARGIN + layout.columns * layout.step_right, _heading_width(title, scale))
    page = np.full((_TOP + layout.lines * layout.step_down, width, 3), PAPER, dtype=np.uint8)
    captions = []
    for sample, head in np.ndindex(samples, heads):
        line, column = layout.tile_position(sample, head)
        y = _TOP + line * layout.step_down + _ABOVE_TILE + layout.above
        x = _MARGIN + column * layout.step_right + layout.left
        _fill(page, _colours(maps, sample, head, scale), y, x, cell)
        if sides:
            _label(page, sides[sample], tops[sample], y, x)
        text = head_words(head) if samples == 1 else f"sample {sample + 1}, {head_words(head)}"
        captions.append((x, y - layout.above - _ABOVE_TILE, text))
    return _lettered(page, title, captions, scale)


def scale_of(maps: AttentionMaps) -> ColourScale:
    """Return one scale for all heads, on both sides of zero where some weight is below it."""
    weights = maps.weights.numpy()
    high, clipped = largest_usual((weights, maps.allowed.numpy()[:, None]))
    return ColourScale(-high if np.nan_to_num(weights).min() < 0 else 0.0, high, clipped=clipped)


def _colours(maps: AttentionMaps, sample: int, head: int, scale: ColourScale) -> np.ndarray:
    colours = values_to_colours(
        maps.weights[sample, head].numpy(), low=scale.low, high=scale.high, signed=scale.low < 0
    )
    colours[~maps.allowed[sample].numpy()] = _FORBIDDEN
    return colours


def _fill(page: np.ndarray, colours: np.ndarray, y: int, x: int, cell: int) -> None:
    """Draw a tile with a thin border around it."""
    tile = colours.repeat(cell, axis=0).repeat(cell, axis=1)
    height, width, _ = tile.shape
    page[y - 1 : y + height + 1, x - 1 : x + width + 1] = _BORDER
    page[y : y + height, x : x + width] = tile


def _label(page: np.ndarray, side: np.ndarray, top: np.ndarray, y: int, x: int) -> None:
    page[y : y + side.shape[0], x - 1 - side.shape[1] : x - 1] = side
    page[y - 1 - top.shape[0] : y - 1, x : x + top.shape[1]] = top


def _lettered(page: np.ndarray, heading: str, captions: list[tuple[int, int, str]], scale: ColourScale) -> np.ndarray:
    """Draw the heading, the colour scale and the numbers of the heads onto the page."""
    picture = Image.fromarray(page)
    draw = ImageDraw.Draw(picture)
    draw.text((_MARGIN, _MARGIN), heading, fill=INK, font=font(_HEADING))
    low, high = scale.ends
    x = _MARGIN + text_width(heading, _HEADING) + 24
    draw.text((x, _MARGIN + 2), low, fill=INK, font=font(_CAPTION))
    x += text_width(low, _CAPTION) + 6
    colours = values_to_colours(
        np.tile(np.linspace(0.0, 1.0, _SCALE_WIDTH), (10, 1)), low=0.0, high=1.0, signed=scale.low < 0
    )
    picture.paste(Image.fromarray(colours), (x, _MARGIN + 4))
    draw.text((x + _SCALE_WIDTH + 6, _MARGIN + 2), high, fill=INK, font=font(_CAPTION))
    for left, top, text in captions:
        draw.text((left, top), text, fill=INK, font=font(_CAPTION))
    return np.asarray(picture)


def heading(maps: AttentionMaps) -> str:
    """Return the layer, and in brackets what its name leaves open: decoder layer 1  (causal)."""
    layer, words = layer_words(maps.name), []
    if maps.measure == "receptive field":
        words.append("by gradients")
    else:
        kind = "cross-attention" if maps.kind == "cross" else "causal" if maps.causal else "bidirectional"
        words += [word for word in (maps.measure, kind) if word != "attention" and word not in layer]
    if maps.channels > 1:
        words.append(f"mean size over {maps.channels} channels")
    return f"{layer}  ({', '.join(words)})" if words else layer


def _heading_width(heading: str, scale: ColourScale) -> int:
    numbers = text_width("".join(scale.ends), _CAPTION)
    return 2 * _MARGIN + text_width(heading, _HEADING) + numbers + _SCALE_WIDTH + 36
