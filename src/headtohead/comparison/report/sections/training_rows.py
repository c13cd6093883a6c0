"""Learning curves over the number of training rows: arms that differ in nothing else form one curve."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import fmean
from typing import Any

from headtohead.comparison.arm_colours import styles_of
from headtohead.comparison.comparability import seed_of
from headtohead.comparison.comparison_results import ArmResult, ComparisonResults
from headtohead.comparison.metric_words import metric_words
from headtohead.comparison.report.number_format import aim, axis_words, between
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
from headtohead.comparison.statistics.means import mean_interval
from headtohead.comparison.tables.run_table import number
from headtohead.comparison.verdicts.verdict_text import coverage
from headtohead.records.record import RunRecord

FIELD = "train_rows"
"""The field of conf/trainer, and of what a record says of its data."""
_FITTED = "BagOfWords"
"""The model that learns without steps."""
_OF_A_RUN = ("seed", "name", "group", "tags", "notes", "output_dir", "resume_from")


@dataclass(frozen=True)
class RowsPoint:
    """One arm."""

    rows: int
    mean: float
    interval: tuple[float, float] | None
    arm: str


@dataclass(frozen=True)
class RowsCurve:
    """Arms by their number of rows; one that learned from none has no points but a `level`."""

    name: str
    points: tuple[RowsPoint, ...] = ()
    level: float | None = None
    """The mean of an arm that does not depend on the number."""
    interval: tuple[float, float] | None = None
    """The interval at the level."""


def over_rows(results: ComparisonResults) -> list[RowsCurve]:
    """Empty unless some arms differ in nothing but their number of rows. Others are shown beside them: those of a
    curve of their own as one point, those that learned nothing as a level."""
    families: list[list[ArmResult]] = []
    untrained: list[ArmResult] = []
    for arm in results.arms:
        if not arm.records or not arm.values:
            continue
        if _is_untrained(arm.records[0]):
            untrained.append(arm)
        elif _rows(arm.records[0]) is not None:
            alike = (arms for arms in families if _are_alike(arms[0], arm))
            if (family := next(alike, None)) is None:
                families.append([arm])
            else:
                family.append(arm)
    if all(len({_rows(arm.records[0]) for arm in arms}) == 1 for arms in families):
        return []
    levels = [RowsCurve(arm.name, (), fmean(arm.values), _around(arm, results)) for arm in untrained]
    return [_curve(arms, results) for arms in families] + levels


def _around(arm: ArmResult, results: ComparisonResults) -> tuple[float, float] | None:
    return mean_interval(arm.values, results.alpha, results.measured)


def _curve(arms: Sequence[ArmResult], results: ComparisonResults) -> RowsCurve:
    points = [RowsPoint(_rows(arm.records[0]) or 0, fmean(arm.values), _around(arm, results), arm.name) for arm in arms]
    name = _common([arm.name for arm in arms]) if len(arms) > 1 else ""
    return RowsCurve(name or arms[0].name, tuple(sorted(points, key=lambda point: point.rows)))


def _common(names: Sequence[str]) -> str:
    """Return the common prefix of the names, without numbers at its end: scratch of scratch_100 and scratch_1000."""
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in alike).rstrip("0123456789").rstrip("_-@ ")


def _rows(record: RunRecord) -> int | None:
    """Return the requested number of rows, or all there were; None if no record has it."""
    rows: int | None = _trainer(record).get(FIELD)
    return record.data.get(FIELD) if rows is None else rows


def _is_untrained(record: RunRecord) -> bool:
    fitted = str(record.config.get("model", {}).get("_target_", "")).endswith(f".{_FITTED}")
    return _trainer(record).get("max_steps") == 0 and not fitted


def _trainer(record: RunRecord) -> Mapping[str, Any]:
    trainer: Mapping[str, object] = record.config.get("trainer", {})
    return trainer


def _are_alike(one: ArmResult, other: ArmResult) -> bool:
    """But for their rows; each seed may start from a run of its own, which is the same one in both arms."""
    starts = {seed_of(record): _start(record) for record in one.records}
    same = all(starts.get(seed_of(record), _start(record)) == _start(record) for record in other.records)
    return same and _family(one.records[0]) == _family(other.records[0])


def _start(record: RunRecord) -> str | None:
    start: str | None = record.config.get("init_from")
    return start


def _family(record: RunRecord) -> str:
    """The configuration but for what tells runs of a curve apart, and where they start."""
    settings = {name: value for name, value in record.config.items() if name not in _OF_A_RUN}
    settings["trainer"] = {name: value for name, value in _trainer(record).items() if name != FIELD}
    settings["init_from"] = bool(record.config.get("init_from"))
    return json.dumps(settings, sort_keys=True, default=str)


def section(results: ComparisonResults) -> Section | None:
    """Return None where the number of rows does not matter."""
    curves = over_rows(results)
    if not curves:
        return None
    return Section("Over training rows", "rows", [_figure(results, curves), _table(results, curves)])


def _figure(results: ComparisonResults, curves: Sequence[RowsCurve]) -> ReportFigure:
    styles = list(styles_of(results).values())  # curves are fewer than arms: the first ones have colours of their own
    rows = _numbers(curves)
    data: list[Mapping[str, object]] = []
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
        "yaxis": {"title": {"text": axis_words(results, results.metric)}},
        "hovermode": "x unified",
    }
    form = with_chance({"data": data, "layout": layout}, results.chance())
    caption = (
        f"{metric_words(results.metric)} over the number of training rows ({aim(results)}): means over seeds, bars "
        f"their {coverage(results.alpha)} t intervals. The rows of a smaller number are among those of a "
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
