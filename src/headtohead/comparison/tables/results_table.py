"""All results of one record, each beside the score of a model that learned nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from headtohead.comparison.analyses.length_curves import LengthCurves, LengthPoint
from headtohead.comparison.tables.run_table import FittedTable, number
from headtohead.records.record import RunRecord


def results_table(record: RunRecord) -> Table | None:
    """Return None where nothing was measured yet."""
    results = record.metrics
    names = list(dict.fromkeys(name for stage in ("test", "validation") for name in results.get(stage, {})))
    if not names:
        return None
    table = Table(header_style="bold")
    table.add_column("metric", no_wrap=True)
    for column in ("test", "validation", "baseline"):
        table.add_column(column, justify="right", no_wrap=True)
    for name in names:
        values = [results.get(stage, {}).get(name) for stage in ("test", "validation")]
        table.add_row(
            name.replace("_", " "), *map(number, values), number(record.baseline(_shown(results, name), name))
        )
    return table


def _shown(results: Mapping[str, Mapping[str, float]], name: str) -> str:
    """Return the stage whose baseline stands beside the metric."""
    return "test" if name in results.get("test", {}) else "validation"


def lengths_table(curves: LengthCurves) -> FittedTable:
    """Show why an arm cannot: a column of its own, or where that has no room a sentence below."""
    reasons = [Text(f"{curve.arm} cannot: {curve.why_not}") for curve in curves.curves if curve.why_not]
    return FittedTable(_table(curves, with_reasons=bool(reasons)), [_table(curves, with_reasons=False), *reasons])


def _table(curves: LengthCurves, *, with_reasons: bool) -> Table:
    """Names and reasons are the user's own: plain text, never markup."""
    title = f"test {curves.metric.replace('_', ' ')} at multiples of the training length"
    table = Table(title=title, title_justify="left", header_style="bold")
    table.add_column("arm", overflow="fold")
    for multiple in curves.multiples:
        table.add_column(f"{multiple}x", justify="right", no_wrap=True)
    if with_reasons:
        table.add_column("why not", overflow="fold")
    for curve in curves.curves:
        reason: list[str | Text] = [Text(curve.why_not)] if with_reasons else []
        table.add_row(Text(curve.arm), *map(_cell, curve.points), *reason)
    if curves.chance:
        reason = ["the score of a model that learned nothing"] if with_reasons else []
        table.add_row(Text("chance", style="dim"), *map(number, curves.chances), *reason)
    return table


def _cell(point: LengthPoint) -> str:
    if point.mean is None:
        return "cannot"
    if point.interval is None:
        return number(point.mean)
    low, high = point.interval
    is_cut = not math.isclose(point.mean - low, high - point.mean, rel_tol=1e-6)
    return f"{number(point.mean)} " + (f"[{number(low)}, {number(high)}]" if is_cut else f"±{(high - low) / 2:.2g}")
