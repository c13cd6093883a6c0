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
# From blue over white to red, for numbers on both sides of zero; none is a grey of paper and letters, which a dark page
# turns dark.
_DIVERGING = np.array(
    [(22, 60, 140), (92, 140, 214), (190, 210, 236), (247, 250, 248), (244, 200, 186), (214, 106, 84), (140, 28, 30)],
    dtype=np.float64,
)


def _table(anchors: np.ndarray) -> np.ndarray:
    positions = np.linspace(0, len(anchors) - 1, 256)
    return np.stack([np.interp(positions, np.arange(len(anchors)), part) for part in anchors.T], axis=1).astype(
        np.uint8
    )


_TABLE, _SIGNED_TABLE = _table(_ANCHORS), _table(_DIVERGING)
_FEWEST_SHARE = 4
"""A query has few keys that may look at no more than a quarter of the most keys of any query."""
_NOT_A_NUMBER = np.array((128, 128, 128), dtype=np.uint8)


def anchors() -> dict[str, list[list[int]]]:
    """Return the colours between which a page draws, so that it shows what a picture shows."""
    return {"sequential": _ANCHORS.astype(int).tolist(), "diverging": _DIVERGING.astype(int).tolist()}


def largest_usual(*maps: tuple[np.ndarray, np.ndarray]) -> tuple[float, bool]:
    """Return the weight of the brightest colour that all of these maps share, and whether some weights are larger.

    It is exceeded by the strongest key of one query in twenty. Queries with few keys count only where there are no
    others: those at the start of a causal map must give each of their keys much, and would leave the rest in the dark.
    Each map is its weights, [..., queries, keys], and which are allowed, broadcast to them.
    """
    rows = [_strongest(weights, allowed) for weights, allowed in maps]
    largest = max((float(every.max(initial=0.0)) for _, every in rows), default=0.0)
    counted = np.concatenate([own for own, _ in rows] or [np.zeros(0)])
    usual = float(np.quantile(counted, 0.95)) if counted.size else 0.0
    if usual <= 0.0 or largest <= 1.1 * usual:
        return largest or 1.0, False
    return usual, True


def _strongest(weights: np.ndarray, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the size of the strongest weight of each query that counts, and of every query."""
    sizes = np.where(np.isfinite(weights) & allowed, np.abs(weights), 0.0)
    keys = np.broadcast_to(allowed.sum(-1), sizes.shape[:-1])
    strongest, most = sizes.max(-1, initial=0.0), int(keys.max(initial=0))
    return strongest[keys > (max(1, most // _FEWEST_SHARE) if most > 1 else 0)], strongest


def values_to_colours(
    values: np.ndarray, *, low: float | None = None, high: float | None = None, signed: bool = False
) -> np.ndarray:
    """Return the colours [..., 3] of numbers; `low` and `high` fix the scale, so that several maps can share it, and
    `signed` takes the colours on both sides of zero."""
    finite = np.isfinite(values)
    known = values[finite]
    smallest = low if low is not None else float(known.min()) if known.size else 0.0
    largest = high if high is not None else float(known.max()) if known.size else 1.0
    if largest <= smallest:
        smallest, largest = 0.0, 1.0
    share = np.clip((np.where(finite, values, smallest) - smallest) / (largest - smallest), 0.0, 1.0)
    colours = (_SIGNED_TABLE if signed else _TABLE)[np.rint(share * 255).astype(np.uint8)]
    return np.where(finite[..., None], colours, _NOT_A_NUMBER)
