"""Several tasks at once: scores by task, interquartile means, who beats whom, and performance profiles."""

from __future__ import annotations

from typing import Any

from headtohead.comparing.across_tasks import TaskAggregate
from headtohead.comparing.findings import Findings
from headtohead.comparing.report.parts import ArmName, Cell, Column, Figure, Section, Table, Text, figure
from headtohead.comparing.report.theme import styles_of
from headtohead.comparing.task_formats import cells, heads


def section(findings: Findings) -> Section | None:
    """None where there is one task."""
    found = findings.tasks
    if found is None:
        return None
    words = Text(f"{_capital(found.normalisation)}. {_capital('; '.join(found.sentences))}.")
    return Section("Over tasks", "tasks", [words, _table(found), _profiles(findings, found)])


def _table(found: TaskAggregate) -> Table:
    columns = [Column("arm"), *(Column(head, numeric=True) for head in heads(found))]
    rows: list[list[Cell]] = [[ArmName(arm.name), *cells(found, arm)] for arm in found.arms]
    caption = (
        "Scores over tasks. Means over seeds for each task; then the mean of the middle half of all scores, and the "
        f"probability that a run beats one of {found.baseline} on a task drawn at random, each with its 95 % interval "
        "by the bootstrap, seeds drawn anew within each task. A run that diverged scores as the worst of all."
    )
    return Table(columns, rows, caption)


def _profiles(findings: Findings, found: TaskAggregate) -> Figure:
    styles = styles_of(findings)
    data: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "name": arm.name,
            "mode": "lines",
            "x": list(found.thresholds),
            "y": list(arm.profile),
            "line": {"color": styles[arm.name].colour, "dash": styles[arm.name].dash, "width": 2, "shape": "hv"},
            "hovertemplate": "%{y:.3f}",
        }
        for arm in found.arms
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
