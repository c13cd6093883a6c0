"""Brent's root of a function between two ends (Brent 1973, Algorithms for Minimization without Derivatives, chapter 4).

It takes the steps of scipy.optimize.brentq, whose import takes longer than the handful of roots of a study.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

_RELATIVE = 4 * sys.float_info.epsilon
_MOST_STEPS = 100


def brent_root(function: Callable[[float], float], below: float, above: float, tolerance: float) -> float:
    """Return where the function, which has opposite signs at the ends, is zero."""
    before, here = below, above
    value_before, value_here = function(before), function(here)
    if value_before == 0:
        return before
    other, value_other, step_before, step = before, value_before, 0.0, 0.0
    for _ in range(_MOST_STEPS):
        if value_here and value_before and (value_before < 0) != (value_here < 0):
            other, value_other, step_before, step = before, value_before, here - before, here - before
        if abs(value_other) < abs(value_here):
            before, here, other = here, other, here
            value_before, value_here, value_other = value_here, value_other, value_here
        least, half = (tolerance + _RELATIVE * abs(here)) / 2, (other - here) / 2
        if value_here == 0 or abs(half) < least:
            break
        trial = half
        if abs(step_before) > least and abs(value_here) < abs(value_before):
            trial = _trial((before, value_before), (here, value_here), (other, value_other))
        is_short = 2 * abs(trial) < min(abs(step_before), 3 * abs(half) - least)
        step_before, step = (step, trial) if is_short and trial != half else (half, half)
        before, value_before = here, value_here
        here += step if abs(step) > least else (least if half > 0 else -least)
        value_here = function(here)
    return here


Point = tuple[float, float]


def _trial(before: Point, here: Point, other: Point) -> float:
    """Return the step to the root of the line through two points, or of the inverse parabola through three."""
    if before[0] == other[0]:
        return -here[1] * (here[0] - before[0]) / (here[1] - before[1])
    slope_before = (before[1] - here[1]) / (before[0] - here[0])
    slope_other = (other[1] - here[1]) / (other[0] - here[0])
    divisor = slope_other * slope_before * (other[1] - before[1])
    return -here[1] * (other[1] * slope_other - before[1] * slope_before) / divisor
