"""Attention for the terminal: a line of figures per head."""

from __future__ import annotations

import math
from typing import Any

from rich.table import Table

from headtohead.examining.probe.attention import Attention
from headtohead.probing.statistics import Statistics

_COLUMNS = {
    "entropy": "entropy",
    "entropy_share": "of ln(keys)",
    "distance": "distance",
    "patch_distance": "in patches",
    "first": "on first",
    "itself": "on itself",
    "previous": "on previous",
}


def show(attention: Attention) -> Table:
    """Only statistics that some head has."""
    found = attention.statistics
    columns = [name for name in _COLUMNS if any(name in own for own in found.values())]
    table = Table(
        title="heads: entropy in nats, mean distance in tokens, shares of weight",
        title_justify="left",
        header_style="bold",
    )
    table.add_column("map", no_wrap=True)
    for name in ("head", *(_COLUMNS[column] for column in columns)):
        table.add_column(name, justify="right", no_wrap=True)
    for name, own in found.items():
        for head in range(len(own["entropy"])):
            table.add_row("" if head else name, str(head), *(_figure(own, column, head) for column in columns))
        table.add_section()
    return table


def as_data(attention: Attention) -> dict[str, Any]:
    """The same as plain numbers, for --json."""
    statistics = {
        name: {figure: [None if math.isnan(value) else value for value in values] for figure, values in own.items()}
        for name, own in attention.statistics.items()
    }
    return {"samples": list(attention.titles), "remarks": list(attention.remarks), "statistics": statistics}


def _figure(own: Statistics, column: str, head: int) -> str:
    value = own[column][head] if column in own else math.nan
    return "-" if math.isnan(value) else f"{value:.2f}" if "distance" in column else f"{value:.3f}"
