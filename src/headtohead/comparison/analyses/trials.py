"""Trials of a tuning: the space that they are taken from, and how each of them ended."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from headtohead.comparison.comparability import NotComparable
from headtohead.records.record import RunRecord

Value = str | int | float | bool | None
Scale = Literal["log", "linear"]


@dataclass(frozen=True)
class ValueChoices:
    """A field may have one of these values."""

    values: tuple[Value, ...]

    @property
    def numbers(self) -> tuple[float, ...]:
        """Return the values in order, or nothing if one of them is not a number."""
        numbers = [value for value in self.values if isinstance(value, int | float) and not isinstance(value, bool)]
        return tuple(sorted(map(float, numbers))) if len(numbers) == len(self.values) else ()

    @property
    def words(self) -> str:
        return f"one of {', '.join(map(written, self.values))}"


@dataclass(frozen=True)
class ValueRange:
    """A field may have any value from low to high."""

    low: float
    high: float
    scale: Scale = "linear"
    kind: Literal["float", "int"] = "float"
    points: int | None = None
    """The number of its points on a grid."""

    @property
    def words(self) -> str:
        """Describe the range: optimizer.lr "from 0.0001 to 0.01"."""
        return f"from {self.low:.3g} to {self.high:.3g}"


def without_repetition(values: Iterable[Value]) -> tuple[Value, ...]:
    """Return the values, the first of each two that make the same run: 1 and 1.0, and not 1 and true, which Python
    holds to be equal."""
    known: dict[object, Value] = {}
    for value in values:
        known.setdefault(_distinct(value), value)
    return tuple(known.values())


def _distinct(value: Value) -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else written(value)


Dimension = ValueChoices | ValueRange
Space = Mapping[str, Dimension]
"""A space of settings by field."""


@dataclass(frozen=True, eq=False)
class Setting:
    """One point of a space; two are equal where they make the same run."""

    fields: tuple[tuple[str, Value], ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Setting) and self._distinct_fields == other._distinct_fields

    def __hash__(self) -> int:
        return hash(self._distinct_fields)

    @property
    def _distinct_fields(self) -> tuple[tuple[str, object], ...]:
        return tuple((key, _distinct(value)) for key, value in self.fields)

    @property
    def overrides(self) -> tuple[str, ...]:
        return tuple(f"{key}={written(value)}" for key, value in self.fields)

    @property
    def values(self) -> dict[str, Value]:
        return dict(self.fields)

    @property
    def words(self) -> str:
        return ", ".join(self.overrides)


@dataclass(frozen=True)
class Trial:
    """A setting that was tried."""

    number: int
    """The trial's number, from 0."""
    setting: Setting
    status: str
    """That of the record; of several runs, that of the first which did not finish."""
    value: float | None = None
    """The mean over its runs of the value on validation; None unless all finished with a number."""
    flops: float = 0.0
    """The FLOPs that it cost."""


def trial_of(number: int, setting: Setting, records: Sequence[RunRecord], metric: str) -> Trial:
    """Build a trial from the records of its runs, one for each of its seeds."""
    values = [_value_of(record, metric) for record in records]
    known = [value for value in values if value is not None]
    mean = math.fsum(known) / len(known) if len(known) == len(values) else None
    status = next((record.status for record in records if record.status != "finished"), "finished")
    return Trial(number, setting, status, mean, sum(record.progress.flops for record in records))


def _value_of(record: RunRecord, metric: str) -> float | None:
    stage, _, name = metric.partition("/")
    assert stage == "validation", "settings are chosen on validation data, never on test data"
    known = record.metrics.get(stage, {})
    if record.status == "finished" and name not in known:
        raise NotComparable(f"trial {record.id} has no {metric}: choose among {', '.join(sorted(known)) or 'none'}")
    value = known.get(name) if record.status == "finished" else None
    return value if value is not None and math.isfinite(value) else None


def best_of(trials: Sequence[Trial], *, larger_is_better: bool) -> Trial | None:
    """Return the best trial, of equals the first; unfinished ones rank below all others. None if nothing finished."""
    sign = -1.0 if larger_is_better else 1.0
    finished = [(sign * trial.value, trial.number, trial) for trial in trials if trial.value is not None]
    return min(finished, key=lambda entry: entry[:2])[2] if finished else None


def written(value: Value) -> str:
    """Format the value as in an override."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
