"""All heads of a layer in one picture: a tile per head and sample, on one scale, tokens along the axes if asked."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from headtohead.probing.attention import AttentionMaps
from headtohead.probing.colours import values_to_colours
from headtohead.probing.labels import Labels
from headtohead.probing.lettering import INK, PAPER, font, side_strip, text_width, top_strip

LONGEST_LABELLED = 64
"""Tokens beyond which labels would be too many to read: they are left out."""
_FORBIDDEN = (226, 226, 231)
"""Where no query may look: not the colour of a small weight."""
_BORDER = (150, 150, 158)
_WIDEST = 1600
"""Pixels; heads beyond go to the next line."""
_TEXT, _HEADING = 9, 13
_MARGIN = 10


@dataclass(frozen=True)
class _Layout:
    """Sizes in pixels."""

    cell: int
    left: int
    """Room for the labels of the queries."""
    above: int
    """Room for the labels of the keys."""
    tile_height: int
    tile_width: int
    columns: int

    @property
    def step_down(self) -> int:
        return self.above + self.tile_height + 2 + _MARGIN + _HEADING + 8

    @property
    def step_right(self) -> int:
        return self.left + self.tile_width + 2 + _MARGIN


def montage(maps: AttentionMaps, *, queries: Labels | None = None, keys: Labels | None = None) -> np.ndarray:
    """Colours [height, width, 3], 8-bit. Cells where a query may not look are grey.

    `queries` and `keys` hold a label per place for each sample; they are left out where there are too many.
    """
    weights, allowed = maps.weights.double().numpy(), maps.allowed.numpy()
    samples, heads, length, num_keys = weights.shape
    labelled = queries is not None and keys is not None and max(length, num_keys) <= LONGEST_LABELLED
    cell = _cell(max(length, num_keys), labelled=labelled)
    sides = [side_strip(labels, cell, _TEXT) for labels in queries or []] if labelled else []
    tops = [top_strip(labels, cell, _TEXT) for labels in keys or []] if labelled else []
    layout = _layout(cell, sides, tops, heads, length, num_keys)
    shown = np.where(allowed[:, None], weights, 0.0)
    low, high = min(0.0, float(np.nanmin(shown))), float(np.nanmax(shown))
    colours = np.where(allowed[:, None, ..., None], values_to_colours(shown, low=low, high=high), _FORBIDDEN)
    lines = math.ceil(heads / layout.columns)
    width = max(_MARGIN + layout.columns * layout.step_right, _heading_width(maps, high))
    page = np.full((_MARGIN + _HEADING + 12 + samples * lines * layout.step_down, width, 3), PAPER, dtype=np.uint8)
    captions = []
    for place in range(samples * heads):
        sample, head = divmod(place, heads)
        line, column = divmod(head, layout.columns)
        top = _MARGIN + _HEADING + 12 + (sample * lines + line) * layout.step_down
        left = _MARGIN + column * layout.step_right
        text = f"head {head}" if samples == 1 else f"sample {sample}, head {head}"
        captions.append((left + layout.left, top, text))
        strips = (sides[sample], tops[sample]) if labelled else None
        _paste_tile(page, colours[sample, head].astype(np.uint8), top + _HEADING + 8, left, layout, strips)
    return _lettered(page, maps, captions, low, high)


def _cell(places: int, *, labelled: bool) -> int:
    return min(26, max(12, 288 // places)) if labelled else max(1, 192 // places)


def _layout(
    cell: int, sides: list[np.ndarray], tops: list[np.ndarray], heads: int, length: int, num_keys: int
) -> _Layout:
    left, above = max((s.shape[1] for s in sides), default=0), max((s.shape[0] for s in tops), default=0)
    tile_width = cell * num_keys
    fitting = max(1, (_WIDEST - _MARGIN) // (left + tile_width + 2 + _MARGIN))
    lines = math.ceil(heads / fitting)
    return _Layout(cell, left, above, cell * length, tile_width, columns=math.ceil(heads / lines))


def _paste_tile(
    page: np.ndarray,
    colours: np.ndarray,
    top: int,
    left: int,
    layout: _Layout,
    strips: tuple[np.ndarray, np.ndarray] | None,
) -> None:
    y, x = top + layout.above, left + layout.left
    height, width = layout.tile_height, layout.tile_width
    page[y : y + height + 2, x : x + width + 2] = _BORDER
    page[y + 1 : y + 1 + height, x + 1 : x + 1 + width] = colours.repeat(layout.cell, 0).repeat(layout.cell, 1)
    if strips is not None:
        side, above = strips
        page[y + 1 : y + 1 + height, x - side.shape[1] : x] = side
        page[y - above.shape[0] : y, x + 1 : x + 1 + width] = above


def _lettered(
    page: np.ndarray, maps: AttentionMaps, captions: list[tuple[int, int, str]], low: float, high: float
) -> np.ndarray:
    """The page with its heading, its scale and the numbers of the heads."""
    picture = Image.fromarray(page)
    draw = ImageDraw.Draw(picture)
    heading = _heading(maps)
    draw.text((_MARGIN, _MARGIN), heading, fill=INK, font=font(_HEADING))
    x = _MARGIN + text_width(heading, _HEADING) + 24
    draw.text((x, _MARGIN + 2), f"{low:.2g}", fill=INK, font=font(_TEXT + 2))
    x += text_width(f"{low:.2g}", _TEXT + 2) + 5
    scale = values_to_colours(np.tile(np.linspace(0.0, 1.0, _SCALE_WIDTH), (10, 1)), low=0.0, high=1.0)
    picture.paste(Image.fromarray(scale), (x, _MARGIN + 3))
    draw.text((x + _SCALE_WIDTH + 5, _MARGIN + 2), f"{high:.2g}", fill=INK, font=font(_TEXT + 2))
    for left, top, text in captions:
        draw.text((left, top), text, fill=INK, font=font(_TEXT + 2))
    return np.asarray(picture)


_SCALE_WIDTH = 96


def _heading(maps: AttentionMaps) -> str:
    kind = "cross-attention" if maps.kind == "cross" else "causal" if maps.causal else "bidirectional"
    return f"{maps.name}  ({kind})"


def _heading_width(maps: AttentionMaps, high: float) -> int:
    numbers = text_width(f"0{high:.2g}", _TEXT + 2)
    return _MARGIN + text_width(_heading(maps), _HEADING) + 24 + numbers + _SCALE_WIDTH + 24
