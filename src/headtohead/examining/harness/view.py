"""Results of lm-evaluation-harness for the terminal: a line for each run, task and metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from headtohead.examining.harness.evaluating import HarnessResults

_ERROR = "_stderr"
"""How the harness names the standard error of a metric: acc_stderr,none."""


def show(found: Sequence[HarnessResults]) -> Table:
    table = Table()
    for place, name in enumerate(("run", "task", "metric", "value", "standard error")):
        table.add_column(name, justify="left" if place < 3 else "right")
    for results in found:
        for task, metrics in results.tasks.items():
            for metric, value in metrics.items():
                if "," not in metric or _ERROR in metric:
                    continue
                name, _, chosen = metric.partition(",")
                error = metrics.get(f"{name}{_ERROR},{chosen}")
                shown = name if chosen == "none" else f"{name} ({chosen})"
                cells = (results.run, task, shown, f"{value:.4f}", "" if error is None else f"{error:.4f}")
                table.add_row(*map(Text, cells))
    return table


def as_data(found: Sequence[HarnessResults]) -> list[dict[str, Any]]:
    return [{"run": one.run, "shots": one.shots, "results": dict(one.tasks)} for one in found]
