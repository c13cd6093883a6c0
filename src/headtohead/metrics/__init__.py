"""The metrics of this project, by what they judge: whatever a file defines is a metric, and no list names them."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from headtohead.metrics.external_metrics import guessed
from headtohead.metrics.metric import Direction, Metric

__all__ = ["Direction", "Metric", "direction_error", "guessed", "metric_named", "metrics", "own_metric", "unit_of"]


@cache
def metrics() -> dict[str, Metric]:
    """Return all metrics of this package by name, in alphabetical order."""
    by_name: dict[str, Metric] = {}
    for module in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        for value in vars(importlib.import_module(f"{__name__}.{module}")).values():
            if isinstance(value, Metric):
                by_name.setdefault(value.name, value)
    return dict(sorted(by_name.items()))


def own_metric(name: str) -> Metric | None:
    """Return the metric of this project that a result is called by, with or without its stage and its cutoff."""
    return metrics().get(name.rpartition("/")[2].partition("@")[0])


def metric_named(name: str) -> Metric | None:
    """Return the project's own metric of this name, else the guess for another program's."""
    return own_metric(name) or guessed(name)


def direction_error(name: str, direction: Direction, better: Direction | None) -> str | None:
    """Return why a result of this name and better direction is not judged in this one; None where it may be."""
    if better in (None, direction):
        return None
    return f"{name} is better the {'lower' if better == 'min' else 'higher'} it is"


def unit_of(name: str, task: str | None) -> str:
    """Return what a result of a task is counted in; empty where that is unknown, or its name says it."""
    metric = own_metric(name)
    return "" if metric is None or task is None else metric.units.get(task, "")
