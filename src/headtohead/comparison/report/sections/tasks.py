"""Several tasks at once: scores by task, interquartile means, who beats whom, and performance profiles."""

from __future__ import annotations

from typing import Any

from headtohead.comparison.analyses.across_tasks import TaskAggregate
from headtohead.comparison.arm_colours import styles_of
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.report.section_parts import (
    ArmName,
    Cell,
    Column,
    ReportFigure,
    ReportTable,
    ReportText,
    Section,
    figure,
)
from headtohead.comparison.tables.comparison_formats import cells, heads


def section(results: ComparisonResults) -> Section | None:
    """Return None where there is one task."""
    result = results.tasks
    if result is None:
        return None
    words = ReportText(f"{_capital(result.normalisation)}. {_capital('; '.join(result.sentences))}.")
    return Section("Over tasks", "tasks", [words, _table(result), _profiles(results, result)])


def _table(aggregate: TaskAggregate) -> ReportTable:
    columns = [Column("arm"), *(Column(head, numeric=True) for head in heads(aggregate))]
    rows: list[list[Cell]] = [[ArmName(arm.name), *cells(aggregate, arm)] for arm in aggregate.arms]
    caption = (
        "Scores over tasks. Means over seeds for each task; then the mean of the middle half of all scores, and the "
        f"probability that a run beats one of {aggregate.baseline} on a task drawn at random, each with its 95 % "
        f"interval "
        "by the bootstrap, seeds resampled within each task. A diverged run gets the worst score of all."
    )
    return ReportTable(columns, rows, caption)


def _profiles(results: ComparisonResults, aggregate: TaskAggregate) -> ReportFigure:
    styles = styles_of(results)
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "name": arm.name,
            "mode": "lines",
            "x": list(aggregate.thresholds),
            "y": list(arm.profile),
            "line": {"color": styles[arm.name].colour, "dash": styles[arm.name].dash, "width": 2, "shape": "hv"},
            "hovertemplate": "%{y:.3f}",
        }
        for arm in aggregate.arms
    ]
    layout = {
        "xaxis": {"title": {"text": "score"}},
        "yaxis": {"title": {"text": "share of runs above it"}, "range": [0, 1.02]},
        "hovermode": "x unified",
    }
    caption = (
        "Performance profiles. The share of all runs, over tasks and seeds, that score above a value: a line that lies "
        "higher everywhere is better whatever score matters."
    )
    return figure({"data": data, "layout": layout}, caption)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
