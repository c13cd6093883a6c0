"""All results of one record, each beside what a model that learned nothing gets."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from headtohead.comparing.table import number
from headtohead.tracking.record import RunRecord


def results_table(record: RunRecord) -> Table | None:
    """None where nothing was measured yet."""
    results = record.metrics
    names = list(dict.fromkeys(name for stage in ("test", "validation") for name in results.get(stage, {})))
    if not names:
        return None
    table = Table(header_style="bold")
    table.add_column("metric", no_wrap=True)
    for column in ("test", "validation", "baseline"):
        table.add_column(column, justify="right", no_wrap=True)
    for name in names:
        values = [results.get(stage, {}).get(name) for stage in ("test", "validation")]
        table.add_row(
            name.replace("_", " "), *map(number, values), number(record.baseline(_shown(results, name), name))
        )
    return table


def _shown(results: Mapping[str, Mapping[str, float]], name: str) -> str:
    """Return the stage whose baseline stands beside the metric."""
    return "test" if name in results.get("test", {}) else "validation"
