"""Arrays as pictures: 8-bit, scaled and coloured here, since W&B turns floats between 0 and 1 into black."""

from __future__ import annotations

from typing import Any

import numpy as np

from headtohead.errors import UsageError
from headtohead.probing.colours import values_to_colours


def to_picture(array: Any) -> np.ndarray:
    """An 8-bit picture [H, W, 3] of a map [H, W], or of colours [H, W, 3 or 4].

    Maps are spread over the colours from their smallest to their largest value (a map of one value shows it within
    0 to 1); what is no number is grey. Colours as floats must lie within 0 and 1.
    """
    values = np.asarray(array)
    if values.ndim == 2:
        return values_to_colours(values.astype(np.float64))
    if values.ndim != 3 or values.shape[2] not in (3, 4):
        raise UsageError(f"a picture has the shape {values.shape}; give [height, width] or [height, width, 3 or 4]")
    if values.dtype == np.uint8:
        return values
    if values.dtype.kind != "f" or values.min() < 0 or values.max() > 1:
        raise UsageError(f"a picture of {values.dtype} colours must be uint8, or floats within 0 and 1")
    result: np.ndarray = np.rint(values * 255).astype(np.uint8)
    return result
