"""Evaluations for the terminal: a result beside its baseline, or a line for each run and length."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.comparison.tables.run_table import FittedTable
from headtohead.finished_runs.evaluation.evaluation_results import Evaluation, EvaluationPoint
from headtohead.metrics.labels import ACCURACY
from headtohead.metrics.language_modelling import LOSS

Cell = Callable[[Evaluation, EvaluationPoint], str]
Column = tuple[str, Cell]
_PART = 5
"""Metrics that have room beside each other in a terminal of 80 columns."""


def show_evaluations(evaluations: Sequence[Evaluation], recorded: Sequence[dict[str, float]]) -> RenderableType:
    """`recorded` is what each run's own record says of the same split."""
    if len(evaluations) == 1 and len(evaluations[0].points) == 1:
        return _one(evaluations[0], evaluations[0].points[0], recorded[0])
    if any(point.shots is not None for evaluation in evaluations for point in evaluation.points):
        return _by_shots(evaluations)
    return _many(evaluations)


def _by_shots(evaluations: Sequence[Evaluation]) -> FittedTable:
    """One line for each run and number of examples."""
    columns: dict[str, Cell] = {
        "rows": lambda _, point: f"{point.samples:,}",
        **{name: _measured(name, with_interval=True) for name in evaluations[0].points[0].metrics},
        "chance": lambda _, point: _number(point.baseline.get(ACCURACY.name)),
    }
    caption = "accuracy with its 95 % interval; chance is that of the largest class"
    shots: Column = ("shots", lambda _, point: str(point.shots))
    return _fitted(
        evaluations, evaluations[0].split, shots, columns, ("rows", LOSS.name, ACCURACY.name, "chance"), caption
    )


def _fitted(
    evaluations: Sequence[Evaluation],
    title: str,
    first_column: Column,
    columns: Mapping[str, Cell],
    first: Collection[str],
    caption: str,
) -> FittedTable:
    """Return all columns, and for a narrow terminal the `first` and the others apart, each with what was asked."""
    others = [name for name in columns if name not in first]
    apart = [[name for name in columns if name in first]]
    apart += [others[start : start + _PART] for start in range(0, len(others), _PART)]

    def table(names: Sequence[str], title: str | None, caption: str | None) -> Table:
        return _lines(evaluations, dict([first_column, *((name, columns[name]) for name in names)]), title, caption)

    parts = [table(names, None if index else title, None) for index, names in enumerate(apart)]
    return FittedTable(table(list(columns), title, caption), [*parts, Text(caption, style="dim italic")])


def _lines(
    evaluations: Sequence[Evaluation], columns: Mapping[str, Cell], title: str | None, caption: str | None
) -> Table:
    table = Table(title=title, title_justify="left", caption=caption)
    table.add_column("run", overflow="fold")
    for name in columns:
        table.add_column(name.replace("_", "\n"), justify="right", no_wrap=True)
    for evaluation in evaluations:
        for index, point in enumerate(evaluation.points):
            cells = [cell(evaluation, point) for cell in columns.values()]
            run = Text(evaluation.name if index == 0 else "")
            table.add_row(run, *cells, end_section=index == len(evaluation.points) - 1)
    return table


def _measured(name: str, *, with_interval: bool = False) -> Cell:
    return lambda _, point: _number(point.metrics.get(name)) + (_interval(point, name) if with_interval else "")


def _one(evaluation: Evaluation, point: EvaluationPoint, recorded: dict[str, float]) -> Group:
    table = Table()
    table.add_column("metric")
    columns = {"value": point.metrics, "chance": point.baseline, "as recorded": recorded}
    filled = {title: numbers for title, numbers in columns.items() if numbers}
    for title in filled:
        table.add_column(title, justify="right")
    for metric in point.metrics:
        first, *others = (_number(numbers.get(metric)) for numbers in filled.values())
        table.add_row(metric, first + _interval(point, metric), *others)
    title_text = Text(f"{evaluation.name}: {_how(evaluation, point)}")
    return Group(title_text, table, _classes(point)) if point.per_class else Group(title_text, table)


def _interval(point: EvaluationPoint, metric: str) -> str:
    """Format the 95 % interval."""
    if metric not in point.intervals:
        return ""
    low, high = point.intervals[metric]
    return f" [{low:.3f}, {high:.3f}]"


def _classes(point: EvaluationPoint) -> Table:
    names = list(point.per_class[0])
    table = Table()
    for index, name in enumerate(names):
        table.add_column(name, justify="right" if index else "left")
    for row in point.per_class:
        table.add_row(Text(str(row["class"])), *(_cell(row[name]) for name in names[1:]))
    return table


def _cell(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def _how(evaluation: Evaluation, point: EvaluationPoint) -> str:
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
    if evaluation.precision != "32-true":
        words.append(f"in {evaluation.precision}")
    return ", ".join(words)


def _many(evaluations: Sequence[Evaluation]) -> FittedTable:
    """One line for each run and length; the length of training is marked."""
    metrics = dict.fromkeys(name for evaluation in evaluations for point in evaluation.points for name in point.metrics)
    strides = {evaluation.stride for evaluation in evaluations} - {None}
    title = f"{evaluations[0].split}{f', windows {strides.pop()} apart' if len(strides) == 1 else ''}"
    columns: dict[str, Cell] = {
        "in sight": lambda _, point: "" if point.mean_context is None else f"{point.mean_context:.1f}",
        "targets": lambda _, point: f"{point.scored:,}",
        **{name: _measured(name) for name in metrics},
        "chance": lambda evaluation, point: _number(point.baseline.get(evaluation.monitor)),
    }
    first = {"in sight", "targets", "chance", *(evaluation.monitor for evaluation in evaluations)}
    return _fitted(evaluations, title, ("length", _length), columns, first, "* the length of training")


def _length(evaluation: Evaluation, point: EvaluationPoint) -> str:
    return f"{'*' if point.length == evaluation.trained_length else ''}{point.length or ''}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}" if abs(value) >= 1e4 else f"{value:.4f}"
