"""Results over the length of test rows: a curve with its interval for each arm, and why some end early."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headtohead.comparing.findings import Findings
from headtohead.comparing.lengths import LengthCurve, LengthCurves, LengthPoint
from headtohead.comparing.report.chance import chance_words, with_chance
from headtohead.comparing.report.parts import ArmName, Cell, Column, Figure, Part, Section, Stacked, Table, figure
from headtohead.comparing.report.theme import Style, faint, styles_of
from headtohead.comparing.report.words import aim, between, level, metric_words
from headtohead.comparing.table import number

_BAND = 0.15
"""Opacity of intervals: those of other arms show through."""


def section(findings: Findings) -> Section | None:
    """None where no run was tested on longer rows."""
    found = findings.lengths
    if found is None:
        return None
    parts: list[Part] = []
    if any(curve.measured for curve in found.curves):
        parts.append(_curves(findings, found))
    parts.append(_table(found))
    return Section("Over length", "lengths", parts)


def _curves(findings: Findings, found: LengthCurves) -> Figure:
    styles = styles_of(findings)
    data: list[Mapping[str, Any]] = [
        trace for curve in found.curves if curve.measured for trace in _traces(curve, styles[curve.arm])
    ]
    layout: dict[str, Any] = {
        "xaxis": {
            "title": {"text": "length of test rows, in training lengths"},
            "type": "log",
            "tickvals": list(found.multiples),
            "ticktext": [f"{multiple}x" for multiple in found.multiples],
        },
        "yaxis": {"title": {"text": f"test {metric_words(found.metric)}"}},
        "hovermode": "x unified",
    }
    form = with_chance({"data": data, "layout": layout}, found.chance)
    caption = (
        f"Test {metric_words(found.metric)} over the length of the rows ({aim(findings)}). 1x is the test split as "
        f"in training, on the right are rows so many times as long; the same rows for every arm and seed of the data. "
        f"Lines are means over seeds, areas their {level(findings.alpha)} intervals after Student; a line ends where "
        f"its arm can read no further.{chance_words(form, next(iter(found.chance.values()), None))}"
    )
    return figure(form, caption)


def _traces(curve: LengthCurve, style: Style) -> list[dict[str, Any]]:
    """The area first, so that lines lie above it."""
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
        "fillcolor": faint(style.colour, _BAND),
        "line": {"width": 0, "color": style.colour},
        "hoverinfo": "skip",
    }
    return [area, line]


def _table(found: LengthCurves) -> Table:
    columns = [Column("arm"), *(Column(f"{multiple}x", numeric=True) for multiple in found.multiples)]
    rows: list[list[Cell]] = [[ArmName(curve.arm), *map(_cell, curve.points)] for curve in found.curves]
    chance: list[Cell] = ["chance", *map(number, found.chances)]
    if any(curve.why_not for curve in found.curves):
        columns.append(Column("why not", wide=True))
        rows = [[*row, curve.why_not] for row, curve in zip(rows, found.curves, strict=True)]
        chance.append("")
    if found.chance:
        rows.append(chance)
    return Table(columns, rows, f"Test {metric_words(found.metric)} at multiples of the training length.")


def _cell(point: LengthPoint) -> Cell:
    return "cannot" if point.mean is None else Stacked(number(point.mean), between(point.interval))
