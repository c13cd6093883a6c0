"""Results over the length of test rows: a curve with its interval for each arm, and why some end early."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headtohead.comparison.analyses.length_curves import LengthCurve, LengthCurves, LengthPoint
from headtohead.comparison.arm_colours import ArmStyle, faint, styles_of
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.metric_words import metric_words
from headtohead.comparison.report.number_format import aim, axis_words, between
from headtohead.comparison.report.section_parts import (
    ArmName,
    Cell,
    Column,
    ReportFigure,
    ReportTable,
    Section,
    SectionPart,
    Stacked,
    chance_words,
    figure,
    with_chance,
)
from headtohead.comparison.tables.run_table import number
from headtohead.comparison.verdicts.verdict_text import coverage

_BAND, _ALL_BANDS, _RIM = 0.15, 0.3, 0.45
"""The opacities of an area, of all areas that may lie over each other together, and of an area's rim."""


def section(results: ComparisonResults) -> Section | None:
    """Return None where no run was tested on longer rows."""
    curves = results.lengths
    if curves is None:
        return None
    parts: list[SectionPart] = []
    if any(curve.measured for curve in curves.curves):
        parts.append(_curves(results, curves))
    parts.append(_table(curves))
    return Section("Over length", "lengths", parts)


def _curves(results: ComparisonResults, curves: LengthCurves) -> ReportFigure:
    styles = styles_of(results)
    measured = [curve for curve in curves.curves if curve.measured]
    band = min(_BAND, _ALL_BANDS / len(measured))
    traces = [_traces(curve, styles[curve.arm], band) for curve in measured]
    data: list[Mapping[str, object]] = [
        *(trace[0] for trace in traces if len(trace) > 1),
        *(trace[-1] for trace in traces),
    ]
    layout: dict[str, Any] = {
        "xaxis": {
            "title": {"text": "length of test rows, in training lengths"},
            "type": "log",
            "tickvals": list(curves.multiples),
            "ticktext": [f"{multiple}x" for multiple in curves.multiples],
        },
        "yaxis": {"title": {"text": f"test {axis_words(results, curves.metric)}"}},
        "hovermode": "x unified",
    }
    form = with_chance({"data": data, "layout": layout}, curves.chance)
    caption = (
        f"Test {metric_words(curves.metric)} over the length of the rows ({aim(results)}). 1x is the test split as "
        f"in training, on the right are rows so many times as long; the same rows for every arm and seed of the data. "
        f"Lines are means over seeds, areas their {coverage(results.alpha)} t intervals; a line ends where "
        f"its arm can read no further.{chance_words(form, next(iter(curves.chance.values()), None))}"
    )
    return figure(form, caption)


def _traces(curve: LengthCurve, style: ArmStyle, band: float) -> list[dict[str, Any]]:
    """Return the area first, so that lines lie above it."""
    line = {
        "type": "scatter",
        "name": curve.arm,
        "legendgroup": curve.arm,
        "mode": "lines+markers",
        "x": [point.multiple for point in curve.measured],
        "y": [point.mean for point in curve.measured],
        "line": {"color": style.colour, "dash": style.dash, "width": 2},
        "marker": {"color": style.colour, "symbol": style.symbol, "size": 8},
        "hovertemplate": "%{y:.4g}",
    }
    sure = [(point.multiple, point.interval) for point in curve.measured if point.interval is not None]
    if len(sure) < 2:
        return [line]
    upwards, back = [(at, low) for at, (low, _) in sure], [(at, high) for at, (_, high) in reversed(sure)]
    area = {
        "type": "scatter",
        "legendgroup": curve.arm,
        "showlegend": False,
        "mode": "lines",
        "x": [at for at, _ in (*upwards, *back)],
        "y": [bound for _, bound in (*upwards, *back)],
        "fill": "toself",
        "fillcolor": faint(style.colour, band),
        "line": {"width": 1, "color": faint(style.colour, _RIM)},
        "hoverinfo": "skip",
    }
    return [area, line]


def _table(curves: LengthCurves) -> ReportTable:
    columns = [Column("arm"), *(Column(f"{multiple}x", numeric=True) for multiple in curves.multiples)]
    rows: list[list[Cell]] = [[ArmName(curve.arm), *map(_cell, curve.points)] for curve in curves.curves]
    chance: list[Cell] = ["chance", *map(number, curves.chances)]
    if any(curve.why_not for curve in curves.curves):
        columns.append(Column("why not", wide=True))
        rows = [[*row, curve.why_not] for row, curve in zip(rows, curves.curves, strict=True)]
        chance.append("")
    if curves.chance:
        rows.append(chance)
    return ReportTable(columns, rows, f"Test {metric_words(curves.metric)} at multiples of the training length.")


def _cell(point: LengthPoint) -> Cell:
    return "cannot" if point.mean is None else Stacked(number(point.mean), between(point.interval))
