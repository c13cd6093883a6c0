"""Winding paths avoid each other and themselves, and are grown in many pictures side by side."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

STEP = 2.5
"""Pixels from one dash to the next."""
CLEARANCE = 3.0
"""Pixels between the middles of two paths, at least nearly: more than between two dashes of one."""
END_CLEARANCE = 4.0
"""Around the ends of paths, where a dot may stand."""
MARGIN = 2.0
_CELLS = 2
"""Cells per pixel, along each side, of the map of occupied space."""
_PAD = 8
"""Cells beyond the picture, so that a disc at its border has all of its cells."""
_NUM_STARTS = 24
_TURNS = np.array([0.4, 0.4, 0.4, 0.6, 0.6, 0.8, 1.0, 1.2])
"""The turns that are tried, in radians; the first that is free is taken."""
_SHARPEST = 1.4
_LOOKED_AT = np.array([1 / 3, 2 / 3, 1.0])
"""The points along a step that must be free."""
_BLOCKED_AT = np.array([0.2, 0.7])
"""The points along a step around which nothing else may go then."""
_OWN_STEPS = 2
"""The last of a path itself, which it cannot keep away from."""


class Canvas:
    """The free space of each picture. Points are pairs of pixels from the top and from the left."""

    def __init__(self, num_pictures: int, size: int, generator: np.random.Generator) -> None:
        self._size, self._generator = size, generator
        width, border = _CELLS * size + 2 * _PAD, _PAD + round(_CELLS * MARGIN)
        taken = np.ones((num_pictures, width, width), dtype=bool)
        taken[:, border:-border, border:-border] = False
        self._taken = taken.reshape(num_pictures, -1)

    def add(self, num_dashes: int, *, num_tries: int, with_ends: bool) -> tuple[np.ndarray, np.ndarray]:
        """Add a further path to each picture, and return its corners and the pictures that had room for one. Later
        paths stay away from it, and `with_ends` further away from its ends."""
        corners = np.zeros((len(self._taken), num_dashes + 1, 2))
        missing = np.arange(len(self._taken))
        for _ in range(num_tries):
            if not len(missing):
                break
            taken = self._taken[missing]
            grown, complete = self._grow(taken, num_dashes)
            if with_ends:
                for index in (0, -1):
                    _block(taken, grown[:, index], END_CLEARANCE)
            corners[missing[complete]], self._taken[missing[complete]] = grown[complete], taken[complete]
            missing = missing[~complete]
        there = np.ones(len(corners), dtype=bool)
        there[missing] = False
        return corners, there

    def keep(self, pictures: np.ndarray) -> None:
        """Retain only these pictures."""
        self._taken = self._taken[pictures]

    def _grow(self, taken: np.ndarray, num_dashes: int) -> tuple[np.ndarray, np.ndarray]:
        pictures = np.arange(len(taken))
        corners = np.zeros((len(taken), num_dashes + 1, 2))
        starts = self._generator.uniform(MARGIN, self._size - MARGIN, size=(len(taken), _NUM_STARTS, 2))
        free = _free(taken, starts)
        complete: np.ndarray = np.any(free, axis=1)
        corners[:, 0] = starts[pictures, free.argmax(1)]
        heading = self._generator.uniform(-np.pi, np.pi, size=len(taken))
        for step in range(num_dashes):
            turns = self._generator.standard_normal((len(taken), len(_TURNS))) * _TURNS
            ways = heading[:, None] + np.clip(turns, -_SHARPEST, _SHARPEST)
            ahead = corners[:, None, None, step] + STEP * _along(ways)[:, :, None] * _LOOKED_AT[:, None]
            free = np.all(_free(taken, ahead), axis=2)
            complete &= np.any(free, axis=1)
            heading = ways[pictures, free.argmax(1)]
            corners[:, step + 1] = corners[:, step] + STEP * _along(heading)
            if step >= _OWN_STEPS:
                _block_step(taken, corners, step - _OWN_STEPS)
        for step in range(max(num_dashes - _OWN_STEPS, 0), num_dashes):
            _block_step(taken, corners, step)
        _block(taken, corners[:, -1], CLEARANCE)
        return corners, complete


def between(corners: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return points along each step of a path, where 0 is its start and 1 its end."""
    start, stop = corners[..., :-1, None, :], corners[..., 1:, None, :]
    array: np.ndarray = start + (stop - start) * shares[:, None]
    return array


def _along(angles: np.ndarray) -> np.ndarray:
    return np.stack([np.sin(angles), np.cos(angles)], axis=-1)


def _free(taken: np.ndarray, indices: np.ndarray) -> np.ndarray:
    cells = _cells(indices, taken.shape[1]).reshape(len(taken), -1)
    return ~np.take_along_axis(taken, cells, axis=1).reshape(indices.shape[:-1])


def _cells(indices: np.ndarray, num_cells: int) -> np.ndarray:
    """Return the cells of points; points outside are at the border, which is never free."""
    width = math.isqrt(num_cells)
    cells = np.clip((_CELLS * indices).astype(np.int64) + _PAD, _PAD, width - _PAD - 1)
    return cells[..., 0] * width + cells[..., 1]


def _block_step(taken: np.ndarray, corners: np.ndarray, step: int) -> None:
    for index in between(corners[:, step : step + 2], _BLOCKED_AT)[:, 0].swapaxes(0, 1):
        _block(taken, index, CLEARANCE)


def _block(taken: np.ndarray, indices: np.ndarray, radius: float) -> None:
    """Occupy a disc around a point of each picture."""
    first = _cells(indices, taken.shape[1]) + np.arange(len(taken)) * taken.shape[1]
    taken.reshape(-1)[first[:, None] + _disc(radius, math.isqrt(taken.shape[1]))] = True


@lru_cache(maxsize=16)
def _disc(radius: float, width: int) -> np.ndarray:
    """Return the offsets of a disc's cells from its middle, in cells that are counted line by line."""
    reach = np.arange(-int(_CELLS * radius), int(_CELLS * radius) + 1)
    down, right = np.meshgrid(reach, reach, indexing="ij")
    return (down * width + right)[np.hypot(down, right) <= _CELLS * radius]
