"""The level of knowing nothing, drawn wherever a metric is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headtohead.comparison.report.arm_styles import MUTED
from headtohead.comparison.tables.run_table import number

NAME = "chance"
_MOST = 2.0
"""Times as high as without the line a figure may become by it."""
_Columns = Mapping[str, Sequence[Any]]


def with_chance(
    form: Mapping[str, Any],
    value: float | Mapping[float, float] | Mapping[str, float] | None,
    columns: _Columns | None = None,
) -> dict[str, Any]:
    """Return the form with a line at chance, which may differ along the figure, or as it is where nobody knows chance,
    or the line would leave the rest less than half of the figure; `columns` hold what traces name by @."""
    data = list(form["data"])
    across, heights = (list(_drawn(data, axis, columns or {})) for axis in ("x", "y"))
    if value is None or not across:
        return {**form, "data": data}
    points = value if isinstance(value, Mapping) else {min(across): value, max(across): value}
    if not points or not all(is_near(heights, height) for height in points.values()):
        return {**form, "data": data}
    line = {
        "type": "scatter",
        "name": NAME,
        "mode": "lines",
        "x": list(points),
        "y": list(points.values()),
        "line": {"color": MUTED, "dash": "dot", "width": 1},
        "hovertemplate": "chance: %{y:.4g}<extra></extra>",
        "legendrank": 3000,
    }
    return {**form, "data": [*data, line]}


def chance_words(form: Mapping[str, Any], value: float | None) -> str:
    """Return the sentence of a caption about chance; empty where nobody knows it."""
    if value is None:
        return ""
    if any(trace.get("name") == NAME for trace in form["data"]):
        return f" The dotted line is chance, {number(value)}: the score of a model that learned nothing."
    return f" Chance, {number(value)}, is off it."


def is_near(heights: Sequence[float], value: float) -> bool:
    """Return whether the line leaves at least half of the figure to what else is drawn."""
    low, high = min(heights), max(heights)
    return max(high, value) - min(low, value) <= _MOST * (high - low) or low <= value <= high


def _drawn(data: Sequence[Mapping[str, Any]], axis: str, columns: _Columns) -> Iterator[float]:
    for trace in data:
        values = trace.get(axis, ())
        known = columns.get(values[1:], ()) if isinstance(values, str) else values
        yield from (value for value in known if value is not None)
