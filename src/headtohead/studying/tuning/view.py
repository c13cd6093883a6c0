"""Tuning on a terminal: a line for each arm, and what stands in the way of calling it well tuned."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headtohead.comparing.table import count, number
from headtohead.comparing.tuning import TuningSummary


def show_tuning(summary: TuningSummary) -> RenderableType:
    """Below the table of arms."""
    table = Table(header_style="bold")
    table.add_column(Text("tuning of"), overflow="fold")
    table.add_column(Text("best"), overflow="fold")
    for name in (summary.design.metric, "trials", "diverged", "failed", "FLOPs"):
        table.add_column(Text(name), justify="right", no_wrap=True)
    for arm in summary.arms:
        best = arm.best
        table.add_row(
            Text(arm.arm),
            Text("-" if best is None else best.setting.words),
            number(None if best is None else best.value),
            f"{len(arm.trials)} of {summary.design.trials}",
            str(arm.diverged),
            str(arm.failed),
            count(arm.flops),
        )
    return Group(table, Text(summary.sentence), *(Text(remark, style="yellow") for remark in summary.remarks))
