"""Runs below folders that match a filter, in an order: what `h2h list runs`, `h2h.runs` and the dashboard ask."""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from headtohead.errors import UsageError
from headtohead.records.index.run_index import RunIndex
from headtohead.records.run_filters import as_text, named_value, run_filter
from headtohead.records.run_summary import UNREADABLE, RunSummary

STATUSES = (
    "running", "failed", "diverged", "out_of_memory", "out_of_disk", UNREADABLE, "interrupted", "finished",
)  # fmt: skip
"""The statuses, those that need a look first."""
_IS_LOSS = re.compile("loss|perplexity|bits_per_byte")
_Key = Callable[[RunSummary], Any]


def runs(
    paths: str | Path | Sequence[str | Path] = "outputs", *, where: str = "", sort: str = "newest", limit: int = 0
) -> list[RunSummary]:
    """Return the runs below folders that a filter lets through, in an order; `limit` keeps the first of them, 0 all."""
    folders = [paths] if isinstance(paths, str | Path) else list(paths)
    for path in map(Path, folders):
        if not path.is_dir():
            raise UsageError(f"{path} is not a folder: give the folder of a run, or one above it such as outputs")
    return ordered(filter(run_filter(where), _distinct(folders)), sort, limit)


def _distinct(paths: Iterable[str | Path]) -> Iterator[RunSummary]:
    """Yield the runs below several folders; one that two of them hold comes once."""
    seen: set[str] = set()
    with RunIndex() as index:
        for path in paths:
            for run in index.summaries(path):
                if run.path not in seen:
                    seen.add(run.path)
                    yield run


def ordered(chosen: Iterable[RunSummary], sort: str, limit: int = 0) -> list[RunSummary]:
    """Return the runs in an order, or the first of them: no more than these are held in memory."""
    key, is_reversed = order_of(sort)
    if not limit:
        return sorted(chosen, key=key, reverse=is_reversed)
    return (heapq.nlargest if is_reversed else heapq.nsmallest)(limit, chosen, key=key)


def order_of(sort: str) -> tuple[_Key, bool]:
    """Return the key by which runs are sorted, and whether from the largest down."""
    named: dict[str, tuple[_Key, bool]] = {
        "newest": (lambda run: run.started or "", True),
        "oldest": (lambda run: run.started or "", False),
        "name": (lambda run: (natural(run.name), run.seed), False),
        "result": (_worse, False),
        "status": (lambda run: STATUSES.index(run.status), False),
        "parameters": (lambda run: _or_infinite(run.costs.get("parameters")), False),
        "step": (lambda run: -run.progress.get("step", 0), False),
    }
    if sort in named:
        return named[sort]
    is_reversed, name = sort.startswith("-"), sort.removeprefix("-")
    return (lambda run: _key_of(named_value(run, name), is_reversed)), is_reversed


def _key_of(value: Any, is_reversed: bool) -> tuple[Any, ...]:
    """Return a key that puts numbers before texts, and what a run does not say last, in whichever direction."""
    if value is None or value != value:
        return (-1 if is_reversed else 2, 0)
    if isinstance(value, int | float):
        return (0, value)
    return (1, natural(as_text(value)))


def _worse(run: RunSummary) -> float:
    """Return a number that is smaller for better results; without a result, infinity."""
    if run.value is None or not math.isfinite(run.value) or run.metric is None:
        return math.inf
    is_less_better = run.direction == "min" if run.metric == run.selected_by else bool(_IS_LOSS.search(run.metric))
    return run.value if is_less_better else -run.value


def _or_infinite(value: float | None) -> float:
    return math.inf if value is None else value


_DIGITS = re.compile(r"(\d+)")


def natural(text: str) -> list[tuple[int, int, str]]:
    """Return a sort key that puts run2 before run10, whatever their capitals."""
    parts = _DIGITS.split(text.lower())
    return [(1, int(part), "") if index % 2 else (0, 0, part) for index, part in enumerate(parts) if part]
