"""Sums of falling powers fitted to many sets of values at once, by Levenberg's and Marquardt's damped least squares
(https://doi.org/10.1137/0111030) of the logarithm, under Huber's loss where a unit of residuals is given.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
HUBER = 2.0
"""Residuals, in robust standard deviations, beyond which a point pulls no harder: of normal ones, one in twenty."""
STEEPEST, _FAR = 5.0, 30.0
"""Bounds of exponents and of logarithms."""
_MOST_STEPS, _SETTLED = 200, 1e-10
_LONGEST = 2.0
"""Of one step, in any free number."""
_EASED, _STRENGTHENED = 0.2, 4.0
_LEAST, _MOST = 1e-9, 1e9
"""Of the damping."""


class SumOfPowers:
    """log(exp(f) + sum_i exp(s_i - e_i x_i)) at places x [terms, points]; the free numbers are f, s_1, e_1, s_2, ..."""

    def __init__(self, at: Floats) -> None:
        self._at = at

    def __call__(self, free: Floats) -> Floats:
        """[..., points] from [..., free]."""
        return np.asarray(np.logaddexp.reduce(self._parts(free), axis=-2))

    def fitted(self, values: Floats, starts: Floats, unit: float | None = None) -> Floats:
        """The free numbers of each row of values, from a start of its own."""
        free = self._within(np.array(starts))
        damping = np.full(len(free), 1e-3)
        cost = self._cost(values - self(free), unit)
        left = np.arange(len(free))
        for _ in range(_MOST_STEPS):
            new = self._within(free[left] + self._step(values[left], free[left], damping[left], unit))
            new_cost = self._cost(values[left] - self(new), unit)
            gain = cost[left] - new_cost
            better = gain > 0
            free[left[better]], cost[left[better]] = new[better], new_cost[better]
            damping[left] = (damping[left] * np.where(better, _EASED, _STRENGTHENED)).clip(_LEAST, _MOST)
            settled = (np.abs(gain) <= _SETTLED * cost[left]) | (~better & (damping[left] >= _MOST))
            left = left[~settled]
            if not left.size:
                break
        return free

    def _step(self, values: Floats, free: Floats, damping: Floats, unit: float | None) -> Floats:
        residuals, slopes = values - self(free), self._slopes(free)
        pulls = slopes * _weights(residuals, unit)[..., None]
        curvature = np.swapaxes(slopes, 1, 2) @ pulls
        own = np.einsum("bii->bi", curvature) + 1e-12
        damped = curvature + (damping[:, None] * own)[..., None] * np.eye(free.shape[1])
        step = np.linalg.solve(damped, np.swapaxes(pulls, 1, 2) @ residuals[..., None])[..., 0]
        return np.clip(step, -_LONGEST, _LONGEST)

    def _slopes(self, free: Floats) -> Floats:
        """[rows, points, free]."""
        parts = self._parts(free)
        shares = np.exp(parts - np.logaddexp.reduce(parts, axis=-2, keepdims=True))
        slopes = np.empty((len(free), parts.shape[-1], free.shape[1]))
        slopes[..., 0] = shares[:, 0]
        slopes[..., 1::2] = np.swapaxes(shares[:, 1:], 1, 2)
        slopes[..., 2::2] = -np.swapaxes(shares[:, 1:] * self._at, 1, 2)
        return slopes

    def _parts(self, free: Floats) -> Floats:
        """[..., 1 + terms, points]."""
        powers = free[..., 1::2, None] - free[..., 2::2, None] * self._at
        floor = np.broadcast_to(free[..., :1, None], (*powers.shape[:-2], 1, powers.shape[-1]))
        return np.concatenate([floor, powers], axis=-2)

    def _within(self, free: Floats) -> Floats:
        bounded = free.clip(-_FAR, _FAR)
        bounded[:, 2::2] = bounded[:, 2::2].clip(0.0, STEEPEST)
        return bounded

    def _cost(self, residuals: Floats, unit: float | None) -> Floats:
        squares = np.square(residuals)
        if unit is None:
            return np.asarray(squares.sum(axis=-1))
        limit = HUBER * unit
        beyond = limit * (2 * np.abs(residuals) - limit)
        return np.asarray(np.where(np.abs(residuals) <= limit, squares, beyond).sum(axis=-1))


def _weights(residuals: Floats, unit: float | None) -> Floats:
    """Of each point in the normal equations."""
    if unit is None:
        return np.ones_like(residuals)
    limit = HUBER * unit
    return np.asarray(limit / np.abs(residuals).clip(min=limit))
