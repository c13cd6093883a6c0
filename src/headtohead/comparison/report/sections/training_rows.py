"""Learning curves over the number of training rows, for arms that differ in nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headtohead.comparison.analyses.row_curves import RowsCurve, over_rows
from headtohead.comparison.arm_colours import styles_of
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.report.number_format import aim, between, level, metric_words
from headtohead.comparison.report.section_parts import (
    Cell,
    Column,
    ReportFigure,
    ReportTable,
    Section,
    Stacked,
    chance_words,
    figure,
    with_chance,
)
from headtohead.comparison.tables.run_table import number


def section(results: ComparisonResults) -> Section | None:
    """Return None where the number of rows does not matter."""
    curves = over_rows(results)
    if not curves:
        return None
    return Section("Over training rows", "rows", [_figure(results, curves), _table(results, curves)])


def _figure(results: ComparisonResults, curves: Sequence[RowsCurve]) -> ReportFigure:
    styles = list(styles_of(results).values())  # curves are fewer than arms: the first ones have colours of their own
    rows = _numbers(curves)
    data: list[Mapping[str, Any]] = []
    for curve, style in zip(curves, styles, strict=False):
        if curve.level is not None:
            across = {"x": rows, "y": [curve.level] * len(rows), "mode": "lines"}
            line: dict[str, Any] = {"color": style.colour, "dash": "dot", "width": 2}
            data.append({"type": "scatter", "name": curve.name, "line": line, "hovertemplate": "%{y:.4g}", **across})
            continue
        ends = [point.interval or (point.mean, point.mean) for point in curve.points]
        above = [high - point.mean for (_, high), point in zip(ends, curve.points, strict=True)]
        below = [point.mean - low for (low, _), point in zip(ends, curve.points, strict=True)]
        bars = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
        data.append(
            {
                "type": "scatter",
                "name": curve.name,
                "mode": "lines+markers" if len(curve.points) > 1 else "markers",
                "x": [point.rows for point in curve.points],
                "y": [point.mean for point in curve.points],
                "error_y": {**bars, "visible": any(above + below), "thickness": 1},
                "line": {"color": style.colour, "dash": style.dash, "width": 2},
                "marker": {"color": style.colour, "symbol": style.symbol, "size": 8},
                "hovertemplate": "%{y:.4g}",
            }
        )
    layout: dict[str, Any] = {
        "xaxis": {
            "title": {"text": "training rows"},
            "type": "log",
            "tickvals": rows,
            "ticktext": [f"{count:,}" for count in rows],
        },
        "yaxis": {"title": {"text": metric_words(results.metric)}},
        "hovermode": "x unified",
    }
    form = with_chance({"data": data, "layout": layout}, results.chance())
    caption = (
        f"{metric_words(results.metric)} over the number of training rows ({aim(results)}): means over seeds, bars "
        f"their {level(results.alpha)} t intervals. The rows of a smaller number are among those of a "
        f"larger one. Level lines: nothing was trained.{chance_words(form, results.chance())}"
    )
    return figure(form, caption[0].upper() + caption[1:])


def _table(results: ComparisonResults, curves: Sequence[RowsCurve]) -> ReportTable:
    rows = _numbers(curves)
    columns = [
        Column("arms"),
        Column("untrained", numeric=True),
        *(Column(f"{count:,}", numeric=True) for count in rows),
    ]
    lines: list[list[Cell]] = []
    for curve in curves:
        by_rows = {point.rows: point for point in curve.points}
        cells: list[Cell] = ["" if curve.level is None else Stacked(number(curve.level), between(curve.interval))]
        for count in rows:
            point = by_rows.get(count)
            cells.append("" if point is None else Stacked(number(point.mean), between(point.interval)))
        lines.append([curve.name, *cells])
    return ReportTable(columns, lines, f"{metric_words(results.metric)} by the number of training rows.".capitalize())


def _numbers(curves: Sequence[RowsCurve]) -> list[int]:
    return sorted({point.rows for curve in curves for point in curve.points})
