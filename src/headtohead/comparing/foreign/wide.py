"""A chart exported from the web page of W&B: a column of steps, and a column "run - metric" for each run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from headtohead.comparing.foreign.columns import Columns, TableError, guess
from headtohead.comparing.foreign.rows import Row

_SEPARATOR = " - "
_BOUNDS = ("__MIN", "__MAX")
_SEEDED = re.compile(r"(?P<arm>.+?)(?:[-_ /.]+s|[-_ /.]*seed)[-_= ]?(?P<seed>\d+)", re.IGNORECASE)


def is_wide(header: Sequence[str]) -> bool:
    return sum(_SEPARATOR in name for name in header) > len(header) / 2


def melted(header: Sequence[str], rows: Sequence[Row], columns: Columns) -> tuple[list[str], list[Row], Columns]:
    """As a table with columns arm, seed, step and the metric; seeds are read off names such as gpt-s3 or gpt_seed3."""
    where = rows[0].where
    runs = [name for name in header if _SEPARATOR in name and not name.endswith(_BOUNDS)]
    metrics = sorted({name.rpartition(_SEPARATOR)[2] for name in runs})
    metric = columns.metric or (metrics[0] if len(metrics) == 1 else None)
    if metric is None or metric not in metrics:
        raise TableError(
            f"{where} is a chart exported from W&B: --metric names one of its metrics, {', '.join(metrics)}"
        )
    step = columns.step or guess("step", [name for name in header if _SEPARATOR not in name])
    if step is None or step not in header:
        raise TableError(f"{where}: --step COLUMN is needed, the one that all runs share")
    chosen = [name for name in runs if name.rpartition(_SEPARATOR)[2] == metric]
    long = [
        Row(row.line, {**_who(name), step: row.cells[step], metric: row.cells[name]}, where)
        for row in rows
        for name in chosen
        if row.cells[name].strip()
    ]
    silent = [name for name in chosen if not any(row.cells[name].strip() for row in rows)]
    if silent:
        raise TableError(f"{where}: the column {silent[0]} is empty: export the chart without this run")
    return ["arm", "seed", step, metric], long, replace(columns, metric=metric, step=step, arm="arm", seed="seed")


def _who(column: str) -> dict[str, str]:
    name = column.rpartition(_SEPARATOR)[0]
    found = _SEEDED.fullmatch(name)
    return {"arm": found["arm"], "seed": found["seed"]} if found else {"arm": name, "seed": "0"}
