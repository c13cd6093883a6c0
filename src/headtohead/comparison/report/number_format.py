"""Numbers of a comparison in words, the same in every section."""

from __future__ import annotations

import re

from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.metric_words import metric_words
from headtohead.comparison.tables.run_table import number
from headtohead.metrics import unit_of

UNKNOWN = "–"
_SIGNED = re.compile(r"(?<![^\s(\[×])[-+](?:\.?\d[\d.]*(?:e[-+]?\d+)?|inf\b)")
"""A number with its sign; a hyphen within a word, a name, a date or a range is preceded by something else."""


def with_minus(text: str) -> str:
    """Write negative numbers of a text with a minus, as pages and figures do. Terminals, CSV, JSON and LaTeX take the
    text as it is, whose hyphens programs read."""
    return _SIGNED.sub(lambda number: re.sub("^-", "−", number[0]), text)


def axis_words(results: ComparisonResults, metric: str) -> str:
    """Write a metric and its unit, where all runs learned one task: validation loss (nats per token)."""
    tasks = {run.record.config.get("choices", {}).get("task") for run in results.runs if run.record is not None}
    unit = unit_of(metric, tasks.pop()) if len(tasks) == 1 else ""
    return f"{metric_words(metric)} ({unit})" if unit else metric_words(metric)


def aim(results: ComparisonResults) -> str:
    return "lower is better" if results.direction == "min" else "higher is better"


def between(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else with_minus(f"{number(bounds[0])} to {number(bounds[1])}")


def hundredths(value: float) -> str:
    """Write a score with two digits after its point; nothing has no sign, and less than nothing a minus."""
    return with_minus(f"{value:z.2f}")


def signed(value: float | None, bounds: tuple[float, float] | None = None) -> str:
    """Return a difference, with its interval on the same line."""
    if value is None:
        return UNKNOWN
    around = "" if bounds is None else f" [{', '.join(map(_signed, bounds))}]"
    return with_minus(f"{_signed(value)}{around}")


def _signed(value: float) -> str:
    """Write three figures, zeros at the end among them, but of whole numbers; nothing has no sign."""
    if float(value).is_integer():
        return f"{value:+.3g}" if value else "0"
    return f"{value:+#.3g}".rstrip(".")


def signed_between(bounds: tuple[float, float] | None) -> str:
    """Format the bounds of a difference."""
    return "" if bounds is None else f"{signed(bounds[0])} to {signed(bounds[1])}"
