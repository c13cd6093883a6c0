"""The words for how long something takes, the same in every table, plan and report."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal

_UNITS = ((1e-6, "us", 0.9995e-3), (1e-3, "ms", 0.9995), (1.0, "s", 90.0), (60.0, "min", 5400.0))
"""Seconds in the unit, its name, and the seconds from which the next larger unit reads better."""

_MOST_DECIMALS = 3


def duration(seconds: float, digits: int = 2) -> str:
    """Return 3.2 us, 12 ms, 40 s, 1.7 min, 117 h or 1,234 h: two digits, more before the point where there are more.

    A benchmark asks for three digits. Halves are rounded up, as the dashboard's page does.
    """
    if not seconds or not math.isfinite(seconds):
        return f"{seconds:.0f} s"
    size, unit = next(((size, unit) for size, unit, end in _UNITS if abs(seconds) < end), (3600.0, "h"))
    value = seconds / size
    decimals = min(_MOST_DECIMALS, max(0, digits - 1 - math.floor(math.log10(abs(value)))))
    text = f"{Decimal(value).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP):,f}"
    return f"{text.rstrip('0').rstrip('.') if decimals else text} {unit}"
