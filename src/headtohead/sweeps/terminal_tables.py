"""A sweep on a terminal: what would be tried, and the results."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.comparison.analyses.trials import written
from headtohead.comparison.tables.run_table import number
from headtohead.sweeps.sweep import Outcome
from headtohead.sweeps.sweep_plan import SweepPlan, SweptRun

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


def _outcome_text(outcome: Outcome | None) -> tuple[str, str, str]:
    if outcome is None:
        return "-", "-", "not done"
    return number(outcome.value), str(outcome.step), outcome.status.replace("_", " ")
