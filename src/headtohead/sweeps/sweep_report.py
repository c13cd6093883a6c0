"""Show what a sweep tried and what it found: tables on a terminal, and sweep.html, one file that asks nothing of any
other place."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.comparison.analyses.trials import Value, written
from headtohead.comparison.arm_colours import INK, MUTED, faint
from headtohead.comparison.metric_words import metric_words
from headtohead.comparison.report.number_format import UNKNOWN
from headtohead.comparison.report.page import page_of
from headtohead.comparison.report.section_parts import (
    Cell,
    Code,
    Column,
    ReportFigure,
    ReportTable,
    ReportText,
    Section,
    SectionPart,
    figure,
)
from headtohead.comparison.tables.run_table import number
from headtohead.execution.single_run import details_of
from headtohead.files.atomic_write import replace_text
from headtohead.sweeps.sweep import Outcome
from headtohead.sweeps.sweep_plan import SweepPlan, SweptRun

FILE = "sweep.html"


def write_page(plan: SweepPlan, command: str) -> Path:
    """Replaces the file as a whole."""
    file = plan.folder / FILE
    replace_text(file, page(plan, command))
    return file


def page(plan: SweepPlan, command: str) -> str:
    """`command` makes the sweep again."""
    sections = [_outcome(plan), _trials(plan), _design(plan, command)]
    return page_of(sections, name=plan.sweep.name, heading=plan.sweep.description or f"Sweep {plan.sweep.name}")


def _outcome(plan: SweepPlan) -> Section:
    rows = ranked(plan)
    measured = [(trial, outcome) for trial, outcome in rows if outcome is not None and outcome.value is not None]
    parts: list[SectionPart] = [ReportText(f"{sentence}.") for sentence in summary(plan)]
    if plan.is_open or len(plan.outcomes) < len(plan.trials):
        parts.append(ReportText("The sweep is not finished: these are the results so far.", "warning"))
    if not measured:
        return Section("Outcome", "outcome", [*parts, ReportText("No trial has a result yet.", "warning")])
    best, outcome = measured[0]
    parts.append(
        ReportText(
            f"The best {metric_words(plan.sweep.metric)} is {number(outcome.value)}, of {best.setting.words}. As the "
            f"best of {len(measured)} it is biased by selection: a study with other seeds shows its real worth."
        )
    )
    if best.run is not None:
        parts.append(Code(best.command))
    parts.append(parallel(measured, plan.sweep.metric, larger_is_better=plan.sweep.larger_is_better))
    return Section("Outcome", "outcome", parts)


def _trials(plan: SweepPlan) -> Section:
    columns = [
        Column("trial", True), *(Column(key) for key in plan.sweep.swept),
        Column(metric_words(plan.sweep.metric), True), Column("steps", True), Column("status"), Column("run"),
        Column("reason", wide=True),
    ]  # fmt: skip
    return Section(
        "Trials", "trials", [ReportTable(columns, [_row(plan, *trial_outcome) for trial_outcome in ranked(plan)])]
    )


def _row(plan: SweepPlan, trial: SweptRun, outcome: Outcome | None) -> list[Cell]:
    values = [written(value) for value in trial.setting.values.values()]
    run: Cell = UNKNOWN if trial.run is None else Code(os.path.relpath(plan.run_folder(trial.run), plan.folder))
    if outcome is None:
        return [str(trial.number), *values, UNKNOWN, UNKNOWN, "not done", run, ""]
    value = UNKNOWN if outcome.value is None else number(outcome.value)
    return [str(trial.number), *values, value, str(outcome.step), outcome.status, run, outcome.reason or ""]


def _design(plan: SweepPlan, command: str) -> Section:
    rows: list[list[Cell]] = [[Code(key), entry.words] for key, entry in plan.sweep.parameters.items()]
    parts: list[SectionPart] = (
        [ReportText("Settings of every trial:"), Code(" ".join(plan.sweep.fixed_fields))]
        if plan.sweep.fixed_fields
        else []
    )
    table = ReportTable([Column("parameter"), Column("values", wide=True)], rows)
    return Section("Design", "design", [table, *parts, ReportText("Repeat the whole sweep:"), Code(command)])


_COLOUR = "--arm-1"
_FAINTEST, _STRONGEST = 0.12, 0.8
_DECADE, _MOST_NAMES = 10.0, 12
_APART = 0.012
"""The share of an axis by which its labels stand off."""
Measured = tuple[SweptRun, Outcome]


@dataclass(frozen=True)
class ParallelAxis:
    """One parameter, or the metric."""

    name: str
    heights: tuple[float, ...]
    """The heights of the trials, from 0 to 1."""
    labels: tuple[tuple[float, str], ...]
    """Heights with what stands there."""


def parallel(measured: Sequence[Measured], metric: str, *, larger_is_better: bool) -> ReportFigure:
    """The trials come best first."""
    fields = list(measured[0][0].setting.values)
    axes = [_axis(field, [trial.setting.values[field] for trial, _ in measured]) for field in fields]
    axes.append(_axis(metric_words(metric), [outcome.value for _, outcome in measured]))
    xs = list(range(len(axes)))
    lines = [
        _line(trial, outcome, rank, len(measured), xs, [axis.heights[rank] for axis in axes])
        for rank, (trial, outcome) in enumerate(measured)
    ]
    names = [axis.name for axis in axes]
    layout = {
        "xaxis": {"tickvals": xs, "ticktext": names, "range": [-0.15, len(axes) - 0.6], "showgrid": True},
        "yaxis": {"visible": False, "range": [-0.06, 1.06]},
        "showlegend": False,
        "annotations": [
            {"x": index + _APART, "y": height, "text": label, "showarrow": False, "xanchor": "left", "yshift": 9,
             "font": {"color": MUTED, "size": 11}}
            for index, axis in enumerate(axes)
            for height, label in axis.labels
        ],
    }  # fmt: skip
    better = "higher" if larger_is_better else "lower"
    caption = (
        f"All trials with a result. The stronger the line, the better its {metric_words(metric)} ({better} "
        "is better); the best is drawn in ink. One trial is one run with one seed: neighbours differ by chance too."
    )
    return figure({"data": lines[::-1], "layout": layout}, caption)


def _line(
    trial: SweptRun, outcome: Outcome, rank: int, count: int, xs: list[int], heights: list[float]
) -> dict[str, Any]:
    share = rank / max(1, count - 1)
    colour = INK if rank == 0 else faint(_COLOUR, _STRONGEST + (_FAINTEST - _STRONGEST) * share)
    label = f"trial {trial.number}: {number(outcome.value)}, {outcome.status}"
    words = "<br>".join([label, *trial.setting.overrides])
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "x": xs,
        "y": heights,
        "text": [words] * len(xs),
        "line": {"color": colour, "width": 3 if rank == 0 else 1.5},
        "marker": {"color": colour, "size": 5},
        "hovertemplate": "%{text}<extra></extra>",
    }


def _axis(name: str, values: Sequence[Value]) -> ParallelAxis:
    figures = [float(value) for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(figures) < len(values):
        return _named(name, [written(value) for value in values])
    if len(set(figures)) <= _MOST_NAMES and len(set(figures)) < len(figures):
        return _spread(name, figures, sorted(set(figures)))
    return _spread(name, figures, [min(figures), max(figures)])


def _named(name: str, words: Sequence[str]) -> ParallelAxis:
    known = list(dict.fromkeys(sorted(words)))
    at = {word: _share(index, 0, len(known) - 1) for index, word in enumerate(known)}
    names = known if len(known) <= _MOST_NAMES else [known[0], known[-1]]
    return ParallelAxis(name, tuple(at[word] for word in words), tuple((at[word], word) for word in names))


def _spread(name: str, figures: Sequence[float], ticks: Sequence[float]) -> ParallelAxis:
    low, high = min(figures), max(figures)
    log = low > 0 and high >= _DECADE * low
    ends = (math.log(low), math.log(high)) if log else (low, high)
    heights = {value: _share(math.log(value) if log else value, *ends) for value in figures}
    return ParallelAxis(
        name,
        tuple(heights[value] for value in figures),
        tuple((heights[value], f"{value:.4g}") for value in dict.fromkeys(ticks)),
    )


def _share(value: float, low: float, high: float) -> float:
    return 0.5 if high <= low else (value - low) / (high - low)


_MOST_ROWS = 60


def show_plan(plan: SweepPlan) -> RenderableType:
    """Show the plan before the first trial."""
    sweep = plan.sweep
    table = Table(header_style="bold")
    for name in ("parameter", "values"):
        table.add_column(name, overflow="fold")
    for key, entry in sweep.parameters.items():
        table.add_row(Text(key), Text(entry.words))
    return Group(table, *map(Text, summary(plan)))


def summary(plan: SweepPlan) -> Iterator[str]:
    """Summarise the plan in sentences."""
    sweep = plan.sweep
    aim = "largest" if sweep.larger_is_better else "smallest"
    ended = len(plan.outcomes) - len(plan.refused)
    done = f", {ended} of them done" if ended else ""
    trials = f"{plan.num_runs} trial{'' if plan.num_runs == 1 else 's'}"
    yield f"{trials}{done}, {plan.method_words}; the best has the {aim} {sweep.metric}"
    yield from sweep.duplicates
    if plan.refused:
        yield f"{len(plan.refused)} of {len(plan.trials)} combinations are skipped, since no run can have them:"
        yield from (f"  {trial.setting.words}: {trial.refusal}" for trial in plan.refused)
    if sweep.hyperband is not None:
        yield sweep.hyperband.words


def show_trials(plan: SweepPlan) -> RenderableType:
    """Return the best first; what failed, and what has not ended, last."""
    table = Table(header_style="bold")
    table.add_column("trial", justify="right")
    for key in plan.sweep.swept:
        table.add_column(Text(key), overflow="fold")
    for name in (plan.sweep.metric, "steps"):
        table.add_column(Text(name), justify="right", no_wrap=True)
    table.add_column("status")
    rows = ranked(plan)
    for index, (trial, outcome) in enumerate(rows[:_MOST_ROWS]):
        values = [written(value) for value in trial.setting.values.values()]
        style = "bold" if index == 0 and outcome is not None and outcome.value is not None else None
        table.add_row(str(trial.number), *map(Text, values), *_outcome_text(outcome), style=style)
    left = len(rows) - _MOST_ROWS
    return Group(table, *([Text(f"and {left} more, in sweep.html")] if left > 0 else []))


def ranked(plan: SweepPlan) -> list[tuple[SweptRun, Outcome | None]]:
    """Trials with how they ended, the best first."""
    sign = -1.0 if plan.sweep.larger_is_better else 1.0

    def key(row: tuple[SweptRun, Outcome | None]) -> tuple[bool, float, int]:
        value = None if row[1] is None else row[1].value
        return value is None, 0.0 if value is None else sign * value, row[0].number

    return sorted(((trial, plan.outcomes.get(trial.number)) for trial in plan.trials), key=key)


def failed_trials(plan: SweepPlan) -> Iterator[str]:
    """Yield a sentence for each trial that ended without a value: why, and where it says more."""
    for trial, outcome in ranked(plan):
        if outcome is not None and outcome.value is None:
            run = trial.run
            where = "" if run is None else f" ({details_of(plan.folder, run.id, plan.run_folder(run))})"
            yield f"trial {trial.number}, {outcome.status.replace('_', ' ')}: {outcome.reason}{where}"


def _outcome_text(outcome: Outcome | None) -> tuple[str, str, str]:
    if outcome is None:
        return "-", "-", "not done"
    return number(outcome.value), str(outcome.step), outcome.status.replace("_", " ")
