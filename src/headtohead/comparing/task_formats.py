"""Several tasks for a terminal and as a LaTeX table: scores by task, and the figures over all of them."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from headtohead.comparing.across_tasks import TaskAggregate, TaskArm
from headtohead.comparing.contest_formats import escaped, tabular
from headtohead.comparing.statistics.tasks import Aggregate
from headtohead.comparing.table import number


def task_table(aggregate: TaskAggregate) -> Table:
    """One line per arm, the baseline first."""
    table = Table(header_style="bold", title="scores", title_justify="left")
    table.add_column("arm", overflow="fold")
    for column in heads(aggregate):
        table.add_column(Text(column), justify="right")
    for arm in aggregate.arms:
        table.add_row(Text(arm.name), *cells(aggregate, arm))
    return table


def task_latex(aggregate: TaskAggregate) -> str:
    """For \\usepackage{booktabs}; nothing is bold, since scores alone are no verdict."""
    rows = [[escaped(cell) for cell in (arm.name, *cells(aggregate, arm))] for arm in aggregate.arms]
    notes = [f"% {' '.join(line.split())}" for line in (aggregate.normalisation, *aggregate.sentences)]
    named = [escaped(head) for head in ("arm", *heads(aggregate))]
    return "\n".join([*notes, tabular("l" + "r" * (len(named) - 1), named, rows)])


def heads(aggregate: TaskAggregate) -> list[str]:
    """Beside the arm's name."""
    tasks = [scale.task for scale in aggregate.scales]
    return [*tasks, "interquartile mean", f"beats {aggregate.baseline}", "diverged"]


def cells(aggregate: TaskAggregate, arm: TaskArm) -> list[str]:
    means = [number(arm.means[scale.task]) for scale in aggregate.scales]
    beats = "baseline" if arm.improvement is None else between(arm.improvement)
    return [*means, between(arm.iqm), beats, str(arm.diverged)]


def between(figure: Aggregate) -> str:
    return f"{figure.value:.3f} [{figure.low:.3f}, {figure.high:.3f}]"
