"""sweep.html: what a sweep tried and what came out, in one file that asks nothing of any other place."""

from __future__ import annotations

import os
from pathlib import Path

from headtohead.comparing.report.page import page_of
from headtohead.comparing.report.parts import Cell, Code, Column, Part, Section, Table, Text
from headtohead.comparing.report.words import UNKNOWN, metric_words
from headtohead.comparing.table import number
from headtohead.comparing.trials import written
from headtohead.files.writing import replace_text
from headtohead.studying.sweeping.coordinates import parallel
from headtohead.studying.sweeping.outcomes import Outcome
from headtohead.studying.sweeping.planning import SweepPlan, SweptRun
from headtohead.studying.sweeping.view import ranked, summary

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
    measured = [(trial, found) for trial, found in rows if found is not None and found.value is not None]
    parts: list[Part] = [Text(f"{sentence}.") for sentence in summary(plan)]
    if plan.is_open or len(plan.outcomes) < len(plan.trials):
        parts.append(Text("The sweep is not at its end: this is what is known so far.", "warning"))
    if not measured:
        return Section("Outcome", "outcome", [*parts, Text("No trial has measured anything.", "warning")])
    best, found = measured[0]
    parts.append(
        Text(
            f"The best {metric_words(plan.sweep.metric)} is {number(found.value)}, of {best.setting.words}. It is the "
            f"best of {len(measured)} and so flattered by chance: a study with seeds of its own says what it is worth."
        )
    )
    if best.cell is not None:
        parts.append(Code(best.command))
    parts.append(parallel(measured, plan.sweep.metric, larger_is_better=plan.sweep.larger_is_better))
    return Section("Outcome", "outcome", parts)


def _trials(plan: SweepPlan) -> Section:
    columns = [
        Column("trial", True), *(Column(key) for key in plan.sweep.swept),
        Column(metric_words(plan.sweep.metric), True), Column("steps", True), Column("status"), Column("run"),
        Column("reason", wide=True),
    ]  # fmt: skip
    return Section("Trials", "trials", [Table(columns, [_row(plan, *found) for found in ranked(plan)])])


def _row(plan: SweepPlan, trial: SweptRun, outcome: Outcome | None) -> list[Cell]:
    values = [written(value) for value in trial.setting.values.values()]
    run: Cell = UNKNOWN if trial.cell is None else Code(os.path.relpath(plan.run_folder(trial.cell), plan.folder))
    if outcome is None:
        return [str(trial.number), *values, UNKNOWN, UNKNOWN, "not done", run, ""]
    value = UNKNOWN if outcome.value is None else number(outcome.value)
    return [str(trial.number), *values, value, str(outcome.step), outcome.status, run, outcome.reason or ""]


def _design(plan: SweepPlan, command: str) -> Section:
    rows: list[list[Cell]] = [[Code(key), entry.words] for key, entry in plan.sweep.parameters.items()]
    given: list[Part] = [Text("Every trial was given:"), Code(" ".join(plan.sweep.given))] if plan.sweep.given else []
    table = Table([Column("parameter"), Column("values", wide=True)], rows)
    return Section("Design", "design", [table, *given, Text("The whole sweep again:"), Code(command)])
