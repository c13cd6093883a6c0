"""Results by length for a terminal: a line for each arm, a column for each multiple of the training length."""

from __future__ import annotations

import math

from rich.table import Table
from rich.text import Text

from headtohead.comparing.fitting import Fitted
from headtohead.comparing.lengths import LengthCurves, LengthPoint
from headtohead.comparing.table import number


def lengths_table(found: LengthCurves) -> Fitted:
    """Why an arm cannot is a column of its own, or where that has no room a sentence below."""
    reasons = [Text(f"{curve.arm} cannot: {curve.why_not}") for curve in found.curves if curve.why_not]
    return Fitted(_table(found, with_reasons=bool(reasons)), [_table(found, with_reasons=False), *reasons])


def _table(found: LengthCurves, *, with_reasons: bool) -> Table:
    """Names and reasons are the user's own: plain text, never markup."""
    title = f"test {found.metric.replace('_', ' ')} at multiples of the training length"
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("arm", overflow="fold")
    for multiple in found.multiples:
        table.add_column(f"{multiple}x", justify="right", no_wrap=True)
    if with_reasons:
        table.add_column("why not", overflow="fold")
    for curve in found.curves:
        reason: list[str | Text] = [Text(curve.why_not)] if with_reasons else []
        table.add_row(Text(curve.arm), *map(_cell, curve.points), *reason)
    if found.chance:
        reason = ["what a model that learned nothing gets"] if with_reasons else []
        table.add_row(Text("chance", style="dim"), *map(number, found.chances), *reason)
    return table


def _cell(point: LengthPoint) -> str:
    if point.mean is None:
        return "cannot"
    if point.interval is None:
        return number(point.mean)
    low, high = point.interval
    is_cut = not math.isclose(point.mean - low, high - point.mean, rel_tol=1e-6)
    return f"{number(point.mean)} " + (f"[{number(low)}, {number(high)}]" if is_cut else f"±{(high - low) / 2:.2g}")
