"""The words for how long something takes, the same in every table, plan and report."""

from __future__ import annotations

import math

_UNITS = ((1e-6, "us", 1e-3), (1e-3, "ms", 1.0), (1.0, "s", 90.0), (60.0, "min", 5400.0), (3600.0, "h", math.inf))
"""Seconds in the unit, its name, and the seconds from which the next larger unit reads better."""


def duration(seconds: float, digits: int = 2) -> str:
    """Return 3.2 us, 12 ms, 40 s, 1.7 min, 117 h or 1,234 h: two digits, more before the point where there are more.

    A benchmark asks for three digits.
    """
    size, unit, _ = next(row for row in _UNITS if seconds < row[2])
    value = seconds / size
    decimals = max(0, digits - 1 - math.floor(math.log10(value))) if value > 0 else 0
    text = f"{value:,.{decimals}f}"
    return f"{text.rstrip('0').rstrip('.') if decimals else text} {unit}"
