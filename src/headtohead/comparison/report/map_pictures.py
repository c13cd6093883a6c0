"""Maps of weights as small pictures: what is compared shares one scale, and short stretches name their tokens."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from headtohead.files.safe_read import open_archive
from headtohead.interpretability.colour_table import largest_usual, values_to_colours

LONGEST = 128
"""Tokens of a side; what comes after them is not drawn."""
_NOTHING = 0
"""The colour that lets the page through."""
_SHADES = 254


@dataclass(frozen=True)
class MapScale:
    """The weights of the darkest and the brightest colour; larger ones are as bright."""

    low: float
    high: float
    clipped: bool = False

    @property
    def words(self) -> str:
        bound = "≥\u00a0" if self.clipped else ""
        return f"{self.low:.2g} to {bound}{self.high:.2g}"


@dataclass(frozen=True)
class HeatMap:
    """One head of one layer on one sample."""

    head: int
    measure: str
    weights: np.ndarray
    """[queries, keys]; NaN where a query may not look."""
    queries: tuple[str, ...] = ()
    """The tokens of the rows; empty where the file names none."""
    keys: tuple[str, ...] = ()

    def start(self, length: int) -> HeatMap:
        """Return the part of the map between its first tokens."""
        weights = self.weights[:length, :length]
        return replace(self, weights=weights, queries=self.queries[:length], keys=self.keys[:length])


def read_maps(file: Path, most: int) -> Sequence[HeatMap]:
    """Return the first heads on the first sample."""
    with open_archive(file) as archive:
        weights = archive["weights"][0, :most, :LONGEST, :LONGEST].astype(np.float64)
        measure = str(archive["measure"]) if "measure" in archive else "attention"
        if bool(archive["causal"]) and str(archive["kind"]) == "self":
            later = np.triu(np.ones(weights.shape[1:], dtype=bool), 1)
            weights = np.where(later, np.nan, weights)
        valid = [archive[name][0, :LONGEST] if name in archive else None for name in ("query_valid", "key_valid")]
        names = [archive[name][0, :LONGEST] if name in archive else None for name in ("query_labels", "key_labels")]
        queries, keys = (
            np.arange(length) if one is None else np.flatnonzero(one)
            for one, length in zip(valid, weights.shape[1:], strict=True)
        )
        rows, columns = (
            () if names_of is None else tuple(str(names_of[index]) for index in indices)
            for names_of, indices in zip(names, (queries, keys), strict=True)
        )
        return [HeatMap(head, measure, one[queries][:, keys], rows, columns) for head, one in enumerate(weights)]


def shared_scale(maps: Iterable[HeatMap]) -> MapScale:
    """Return the scale on which all of these maps can be compared."""
    weights = [one.weights for one in maps]
    high, clipped = largest_usual(*((np.nan_to_num(one), ~np.isnan(one)) for one in weights))
    is_signed = any(np.nan_to_num(one).min(initial=0.0) < 0 for one in weights)
    return MapScale(-high if is_signed else 0.0, high, clipped)


def shades(*, signed: bool) -> np.ndarray:
    """Return the colours of a map from the low end of its scale to the high one, red, green and blue."""
    return values_to_colours(np.linspace(0, 1, _SHADES + 1), low=0.0, high=1.0, signed=signed).astype(np.uint8)


def picture_of(one: HeatMap, scale: MapScale) -> bytes:
    """Return a PNG with a palette."""
    forbidden = np.isnan(one.weights)
    share = np.clip((np.where(forbidden, scale.low, one.weights) - scale.low) / (scale.high - scale.low), 0.0, 1.0)
    dots = np.where(forbidden, _NOTHING, 1 + np.rint(share * _SHADES)).astype(np.uint8)
    image = Image.fromarray(dots, mode="P")
    palette = np.vstack([np.zeros((1, 3), np.uint8), shades(signed=scale.low < 0)])
    image.putpalette(palette.tobytes())
    content = io.BytesIO()
    image.save(content, "PNG", transparency=_NOTHING, optimize=True)
    return content.getvalue()
