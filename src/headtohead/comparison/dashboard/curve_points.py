"""One logged metric of a run in as many points as a chart can show: a long curve is cut into stretches, of each of
which the mean, the lowest and the highest value are sent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from headtohead.records.metrics_tail import MetricsChunk, point_of

AXES = ("step", "tokens", "flops", "seconds")
_DIGITS = 7
"""Digits of a number that stands for several."""


class Stretch(NamedTuple):
    """A stretch of an axis, between two ends."""

    axis: str
    low: float
    high: float


class _Row(NamedTuple):
    step: int
    value: float | None
    line: bytes


def curve_columns(piece: MetricsChunk, metric: str, most: int, within: Stretch | None) -> dict[str, Any]:
    """Return the points as columns: every one where there are at most `most` of them (or `most` is 0), else those of
    `most` stretches with `low`, `high` and the `count` of numbers in each. Beyond the ends of `within` one point more
    on either side is sent, so that lines reach the frame."""
    rows = list({row[0]: _Row(*row) for row in piece.rows(metric)}.values())  # logged twice: the later one counts
    rows.sort(key=lambda row: row.step)
    if within is not None:
        rows = _inside(rows, within)
    if not most or len(rows) <= most:
        return {**_axes(rows), "value": [row.value for row in rows]}
    parts = _cut(rows, most)
    values = [[row.value for row in part] for part in parts]
    middles = _axes(part[len(part) // 2] for part in parts)
    return {
        **{axis: [_short(value) for value in column] for axis, column in middles.items()},
        "value": [_over(_mean, own) for own in values],
        "low": [_over(min, own) for own in values],
        "high": [_over(max, own) for own in values],
        "count": [len(own) for own in values],
    }


def _inside(rows: Sequence[_Row], within: Stretch) -> list[_Row]:
    positions = _axes(rows)[within.axis]
    inside = [index for index, position in enumerate(positions) if within.low <= position <= within.high]
    return list(rows[max(0, inside[0] - 1) : inside[-1] + 2]) if inside else []


def _cut(rows: Sequence[_Row], most: int) -> list[Sequence[_Row]]:
    """Cut the rows evenly; the first and the last one stand for themselves, so that a curve has its true ends."""
    inner, number = rows[1:-1], max(1, most - 2)
    cuts = [len(inner) * index // number for index in range(number + 1)]
    return [rows[:1], *(inner[a:b] for a, b in pairwise(cuts) if a < b), rows[-1:]]


def _axes(rows: Iterable[_Row]) -> dict[str, list[Any]]:
    progress = [point.progress for row in rows if (point := point_of(row.line)) is not None]
    return {axis: [getattr(own, axis) for own in progress] for axis in AXES}


def _over(what: Callable[[Sequence[float]], float], values: Sequence[float | None]) -> float | None:
    """Return `what` of the values; None where one of them is not a number, so that a gap stays in sight."""
    known = [value for value in values if value is not None]
    return _short(what(known)) if len(known) == len(values) else None


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _short(value: float) -> float:
    return value if isinstance(value, int) else float(f"{value:.{_DIGITS}g}")
