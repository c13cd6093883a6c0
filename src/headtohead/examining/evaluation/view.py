"""Evaluations for the terminal: a result beside its baseline, or a line for each run and length."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.examining.evaluation.findings import Evaluation, Point


def show(evaluations: Sequence[Evaluation], recorded: Sequence[dict[str, float]]) -> RenderableType:
    """`recorded` is what each run's own record says of the same split."""
    if len(evaluations) == 1 and len(evaluations[0].points) == 1:
        return _one(evaluations[0], evaluations[0].points[0], recorded[0])
    if any(point.shots is not None for found in evaluations for point in found.points):
        return _by_shots(evaluations)
    return _many(evaluations)


def _by_shots(evaluations: Sequence[Evaluation]) -> Table:
    """One line for each run and number of examples."""
    metrics = list(evaluations[0].points[0].metrics)
    table = Table(title=evaluations[0].split, title_justify="left")
    table.add_column("run")
    for column in ("shots", "rows", *metrics, "chance"):
        table.add_column(column, justify="right")
    for found in evaluations:
        for place, point in enumerate(found.points):
            table.add_row(
                found.name if place == 0 else "",
                str(point.shots),
                f"{point.samples:,}",
                *(_number(point.metrics.get(metric)) + _interval(point, metric) for metric in metrics),
                _number(point.baseline.get("accuracy")),
                end_section=place == len(found.points) - 1,
            )
    table.caption = "accuracy with its 95 % interval; chance is that of the largest class"
    return table


def _one(evaluation: Evaluation, point: Point, recorded: dict[str, float]) -> Group:
    table = Table()
    table.add_column("metric")
    columns = {"value": point.metrics, "chance": point.baseline, "as recorded": recorded}
    shown = {title: numbers for title, numbers in columns.items() if numbers}
    for title in shown:
        table.add_column(title, justify="right")
    for metric in point.metrics:
        first, *others = (_number(numbers.get(metric)) for numbers in shown.values())
        table.add_row(metric, first + _interval(point, metric), *others)
    said = Text(f"{evaluation.name}: {_how(evaluation, point)}")
    return Group(said, table, _classes(point)) if point.per_class else Group(said, table)


def _interval(point: Point, metric: str) -> str:
    """From where to where, with 95 % certainty."""
    if metric not in point.intervals:
        return ""
    low, high = point.intervals[metric]
    return f" [{low:.3f}, {high:.3f}]"


def _classes(point: Point) -> Table:
    names = list(point.per_class[0])
    table = Table()
    for place, name in enumerate(names):
        table.add_column(name, justify="right" if place else "left")
    for row in point.per_class:
        table.add_row(Text(str(row["class"])), *(_cell(row[name]) for name in names[1:]))
    return table


def _cell(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def _how(evaluation: Evaluation, point: Point) -> str:
    words: list[str] = [evaluation.split]
    if point.shots is not None:
        words.append(f"{point.shots} examples in the prompt")
    if point.length is not None:
        words.append(f"{point.length} tokens at once")
    if evaluation.stride is not None:
        words.append(f"windows {evaluation.stride} apart")
    words.append(f"{point.scored:,} targets in {point.samples:,} rows")
    if point.mean_context is not None:
        words.append(f"{point.mean_context:.1f} tokens in sight on average")
    return ", ".join(words)


def _many(evaluations: Sequence[Evaluation]) -> Table:
    """One line for each run and length; the length of training is marked."""
    metrics = list(dict.fromkeys(name for found in evaluations for point in found.points for name in point.metrics))
    strides = {found.stride for found in evaluations} - {None}
    title = f"{evaluations[0].split}{f', windows {strides.pop()} apart' if len(strides) == 1 else ''}"
    table = Table(title=title, title_justify="left")
    table.add_column("run")
    for column in ("length", "in sight", "targets", *metrics, "chance"):
        table.add_column(column, justify="right")
    for found in evaluations:
        for place, point in enumerate(found.points):
            mark = "*" if point.length == found.trained_length else ""
            table.add_row(
                found.name if place == 0 else "",
                f"{mark}{point.length or ''}",
                "" if point.mean_context is None else f"{point.mean_context:.1f}",
                f"{point.scored:,}",
                *(_number(point.metrics.get(metric)) for metric in metrics),
                _number(point.baseline.get(found.monitor)),
                end_section=place == len(found.points) - 1,
            )
    table.caption = "* the length of training"
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}" if abs(value) >= 1e4 else f"{value:.4f}"
