"""What an evaluation says of classes beside its metrics: intervals of shares, and a line for each class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headtohead.metrics.accuracy import ACCURACY
from headtohead.tasks.tables import Table

_CERTAINTY = 0.95


def intervals(metrics: Mapping[str, float], samples: int) -> dict[str, list[float]]:
    """Exact, of the share of the rows that are right."""
    from scipy import stats

    found = {}
    if ACCURACY.name in metrics and samples:
        test = stats.binomtest(round(metrics[ACCURACY.name] * samples), samples)
        interval = test.proportion_ci(_CERTAINTY, method="exact")
        found[ACCURACY.name] = [float(interval.low), float(interval.high)]
    return found


def per_class(tables: Mapping[str, Table]) -> list[dict[str, Any]]:
    table = tables.get("per_class")
    return [] if table is None else [dict(zip(table.columns, row, strict=True)) for row in table.rows]
