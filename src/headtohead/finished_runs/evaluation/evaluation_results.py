"""Hold the results of an evaluation, which are written to RUN/evaluations/NAME.json, and show them on a terminal: a
result beside its baseline, or a line for each run and length."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.comparison.tables.run_table import FittedTable
from headtohead.data.data_source import SplitName
from headtohead.files.atomic_write import replace_text, write_each
from headtohead.metrics.labels import ACCURACY
from headtohead.metrics.language_modelling import LOSS
from headtohead.records.strict_json import encode

FOLDER = "evaluations"


@dataclass(frozen=True)
class LossByPosition:
    """Mean loss and number of scored tokens by how many tokens were in sight: the first entry is one token."""

    loss: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class EvaluationPoint:
    """One pass over the split."""

    length: int | None
    """Tokens that the model reads at once; None where the data decides."""
    metrics: dict[str, float]
    baseline: dict[str, float]
    """The score of a model that learned nothing."""
    samples: int
    """Rows, or windows."""
    scored: int
    """Targets that counted, each once."""
    mean_context: float | None
    """Tokens in sight of a scored one, itself left out, on average; None where order is none."""
    data_hash: str
    seconds: float
    position: dict[str, Any] = field(default_factory=dict)
    """The position encoding in force, with the factor that a scaling had."""
    places: LossByPosition | None = None
    shots: int | None = None
    """Examples in the prompts of a language model that is asked for classes."""
    intervals: dict[str, list[float]] = field(default_factory=dict)
    """The intervals of shares of rows: where they lie, with 95 % certainty, for rows like these (Clopper and Pearson
    1934)."""
    per_class: list[dict[str, Any]] = field(default_factory=list)
    """Precision, recall and F1 of each class, and of how many rows it is true."""
    files: Mapping[str, object] = field(default_factory=dict, metadata={"stored": False})
    """The answers to each sample, by the name of a file of its own."""


@dataclass(frozen=True)
class Evaluation:
    """A run, how it was measured, and a point for each length."""

    run: str
    """The id of the run."""
    name: str
    """The name of the run."""
    split: SplitName
    """The split that was measured."""
    stride: int | None
    """The number of tokens that windows are apart; None where rows do not overlap."""
    trained_length: int | None
    """Tokens that the model read at once in training."""
    overrides: tuple[str, ...]
    """The overrides of data and task, where these are not the run's own."""
    tokenizer: str
    """The run's tokenizer, as its record names it; empty where there is none."""
    precision: str
    """The number format in which the model computed."""
    device: str
    """The device that computed."""
    monitor: str
    """The validation metric that selected the weights."""
    points: tuple[EvaluationPoint, ...]
    """The results, one for each length or number of examples."""
    path: str = field(default="", metadata={"stored": False})
    """The path on disk."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists, as JSON can hold them."""
        plain: dict[str, Any] = encode(self, "evaluation")
        return plain

    def stem(self) -> str:
        """Return the name of its files: the same question writes over its old answer."""
        words: list[str] = [self.split]
        lengths = [point.length for point in self.points if point.length is not None]
        if lengths:
            words.append("length_" + "_".join(map(str, lengths)))
        if self.stride is not None:
            words.append(f"stride_{self.stride}")
        shots = [point.shots for point in self.points if point.shots is not None]
        if shots:
            words.append("shots_" + "_".join(map(str, shots)))
        if self.overrides:
            words.append(hashlib.sha256(" ".join(self.overrides).encode()).hexdigest()[:8])
        return "-".join(words)

    def write(self, run: Path) -> Path:
        """Write the results below the run's folder, and return their file."""
        folder = run / FOLDER
        folder.mkdir(exist_ok=True)
        path = folder / f"{self.stem()}.json"
        for point in self.points[:1]:
            write_each(point.files, path.with_suffix(""))
        replace_text(path, json.dumps(self.to_dict(), indent=2, ensure_ascii=False) + "\n")
        return path


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
