"""A contest for a terminal and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields

from rich.table import Table
from rich.text import Text

from headtohead.comparison.analyses.across_tasks import TaskAggregate, TaskArm
from headtohead.comparison.arms import ArmCosts
from headtohead.comparison.comparison import Comparison
from headtohead.comparison.statistics.bootstrap import Aggregate
from headtohead.comparison.tables.comparison_rows import ComparisonRow, rows_of
from headtohead.comparison.tables.run_table import FittedTable, chance_text, count, energy, memory, number
from headtohead.comparison.verdicts.verdict_text import OF_WHAT

_STYLES = {"better": "green", "worse": "red", "equivalent": "cyan", "undecided": "yellow"}
_NAME = 12
Column = tuple[str, Callable[[ComparisonRow], str]]
_COSTS: tuple[Column, ...] = (
    ("parameters", lambda row: count(row.costs.parameters)),
    ("FLOPs", lambda row: count(row.costs.flops)),
    ("tokens", lambda row: count(row.costs.tokens)),
    ("seconds", lambda row: count(row.costs.seconds)),
    ("tokens/s", lambda row: count(row.costs.tokens_per_second)),
    ("samples/s", lambda row: count(None if row.costs.tokens_per_second else row.costs.samples_per_second)),
    ("memory", lambda row: memory(row.costs.peak_memory_bytes)),
    ("energy", lambda row: energy(row.costs.joules)),
    ("J/token", lambda row: count(row.costs.joules_per_token)),
)
_COUNTS: tuple[Column, ...] = (
    ("seeds", lambda row: str(row.seeds)),
    ("diverged", lambda row: str(row.diverged)),
    ("left out", lambda row: str(row.left_out)),
)


def comparison_table(comparison: Comparison) -> FittedTable:
    """Return one line per arm, the baseline first; costs and counts that say nothing have no column."""
    rows = rows_of(comparison)
    costs, counts = cost_columns(rows), count_columns(rows)
    apart = [_costs_table(rows, costs)] if costs else []
    return FittedTable(
        _results_table(comparison, rows, [*costs, *counts]), [_results_table(comparison, rows, counts), *apart]
    )


def _results_table(comparison: Comparison, rows: Sequence[ComparisonRow], more: Sequence[Column]) -> Table:
    table = _table_of_arms()
    table.caption, table.caption_justify = chance_text(comparison.chance), "left"
    for name in (comparison.notes, "difference"):
        table.add_column(Text(name), justify="right")
    table.add_column("p", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for name, _ in more:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        verdict = Text(_in_lines(row), style=_STYLES[row.verdict]) if row.verdict else "baseline"
        table.add_row(Text(row.arm), *_figures(row), p_text(row), verdict, *(displayed(row) for _, displayed in more))
    return table


def _costs_table(rows: Sequence[ComparisonRow], costs: Sequence[Column]) -> Table:
    table = _table_of_arms()
    for name, _ in costs:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(Text(row.arm), *(displayed(row) for _, displayed in costs))
    return table


def _table_of_arms() -> Table:
    """Names are the user's own: plain text, never rich's markup."""
    table = Table(header_style="bold")
    table.add_column("arm", overflow="fold", min_width=_NAME)
    return table


def comparison_csv(comparisons: Mapping[str, Comparison]) -> str:
    """Numbers in full, one line per arm of each task; "" is the only task, or all of them."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    costs = [cost.name for cost in fields(ArmCosts)]
    writer.writerow([
        "task", "arm", "baseline", "metric", "stage", "mean", "low", "high", "difference", "difference_low",
        "difference_high", "p", "verdict", "method", "exploratory", "seeds", "diverged", "left_out", *costs,
    ])  # fmt: skip
    for task, comparison in comparisons.items():
        writer.writerows([task, *_csv_cells(comparison, row)] for row in rows_of(comparison))
    return text.getvalue()


def _csv_cells(comparison: Comparison, row: ComparisonRow) -> list[object]:
    verdict = comparison.verdict_on(row.arm)
    return [
        row.arm, comparison.baseline, comparison.metric, comparison.stage, row.mean, *(row.interval or ("", "")),
        row.difference, *(row.difference_interval or ("", "")), row.p, row.verdict, row.method,
        verdict.exploratory if verdict else "", row.seeds, row.diverged, row.left_out, *asdict(row.costs).values(),
    ]  # fmt: skip


def _in_lines(row: ComparisonRow) -> str:
    """Return the verdict, and below it why nothing was shown."""
    kind, _, why = (row.answer or "").partition(": ")
    return "\n".join(filter(None, (f"{kind}:" if why else kind, why.replace("learned ", "learned\n", 1))))


def p_text(row: ComparisonRow) -> str:
    """Return the adjusted p-value; nothing for the baseline."""
    if row.is_baseline:
        return ""
    return "< 0.001" if row.p is not None and row.p < 0.001 else number(row.p)


def _figures(row: ComparisonRow) -> list[str]:
    mean = number(row.mean)
    if row.interval:
        mean += f"\n{number(row.interval[0])} to {number(row.interval[1])}"
    between = [] if row.difference_interval is None else [" to ".join(map(number, row.difference_interval))]
    return [mean, "" if row.is_baseline else "\n".join([number(row.difference), *between, *difference_statistic(row)])]


def difference_statistic(row: ComparisonRow) -> list[str]:
    """Name the statistic of a difference, unless it is one of means."""
    return [OF_WHAT[row.method]] if row.method in OF_WHAT and row.difference is not None else []


def cost_columns(rows: Sequence[ComparisonRow]) -> list[Column]:
    """Return the cost columns in which some arm has a value."""
    return [(name, displayed) for name, displayed in _COSTS if any(displayed(row) != number(None) for row in rows)]


def count_columns(rows: Sequence[ComparisonRow]) -> list[Column]:
    return [
        (name, displayed)
        for name, displayed in _COUNTS
        if name == "seeds" or any(displayed(row) != "0" for row in rows)
    ]


def task_table(aggregate: TaskAggregate) -> Table:
    """Return one line per arm, the baseline first."""
    table = Table(header_style="bold", title="scores", title_justify="left")
    table.add_column("arm", overflow="fold")
    for column in heads(aggregate):
        table.add_column(Text(column), justify="right")
    for arm in aggregate.arms:
        table.add_row(Text(arm.name), *cells(aggregate, arm))
    return table


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
