"""A map of a run's archive as a small picture: one dot per pair of tokens, as few bytes as it needs."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from headtohead.probing.colours import values_to_colours

_LONGEST = 128
"""Tokens of a side; what comes after them is not drawn."""
_NOTHING = 0
"""The colour that lets the page through."""


@dataclass(frozen=True)
class HeatMap:
    """One head of one layer on one sample."""

    head: int
    measure: str
    weights: np.ndarray
    """[queries, keys]; NaN where a query may not look."""

    @property
    def low(self) -> float:
        """Zero, unless there are weights below it."""
        return min(0.0, float(np.nanmin(self.weights)))

    @property
    def high(self) -> float:
        return float(np.nanmax(self.weights))


def read_maps(file: Path, most: int) -> Sequence[HeatMap]:
    """The first heads on the first sample."""
    with file.open("rb") as opened, np.load(opened, allow_pickle=False) as archive:
        weights = archive["weights"][0, :most, :_LONGEST, :_LONGEST].astype(np.float64)
        measure = str(archive["measure"]) if "measure" in archive else "attention"
        if bool(archive["causal"]) and str(archive["kind"]) == "self":
            later = np.triu(np.ones(weights.shape[1:], dtype=bool), 1)
            weights = np.where(later, np.nan, weights)
        valid = [archive[name][0, :_LONGEST] if name in archive else None for name in ("query_valid", "key_valid")]
    queries, keys = (slice(None) if one is None else np.flatnonzero(one) for one in valid)
    return [HeatMap(head, measure, one[queries][:, keys]) for head, one in enumerate(weights)]


def picture_of(one: HeatMap) -> bytes:
    """PNG with a palette."""
    forbidden = np.isnan(one.weights)
    reach = one.high - one.low
    share = np.where(forbidden, 0.0, one.weights - one.low) / (reach if reach > 0 else 1.0)
    dots = np.where(forbidden, _NOTHING, 1 + np.rint(share * 254)).astype(np.uint8)
    image = Image.fromarray(dots, mode="P")
    palette = np.vstack([np.zeros((1, 3), np.uint8), values_to_colours(np.linspace(0, 1, 255))])
    image.putpalette(palette.astype(np.uint8).tobytes())
    written = io.BytesIO()
    image.save(written, "PNG", transparency=_NOTHING, optimize=True)
    return written.getvalue()
