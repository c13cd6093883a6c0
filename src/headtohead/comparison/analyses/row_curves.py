"""Compare arms over the number of rows they learned from: arms that differ in nothing else form one curve."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import fmean
from typing import Any

from headtohead.comparison.comparability import seed_of
from headtohead.comparison.comparison_results import ArmResult, ComparisonResults
from headtohead.comparison.statistics.means import mean_interval
from headtohead.records.record import RunRecord

FIELD = "train_rows"
"""The field of conf/trainer, and of what a record says of its data."""
_FITTED = "BagOfWords"
"""The model that learns without steps."""
_OF_A_RUN = ("seed", "name", "group", "tags", "notes", "output_dir", "resume_from")


@dataclass(frozen=True)
class RowsPoint:
    """One arm."""

    rows: int
    mean: float
    interval: tuple[float, float] | None
    arm: str


@dataclass(frozen=True)
class RowsCurve:
    """Arms by their number of rows; one that learned from none has no points but a `level`."""

    name: str
    points: tuple[RowsPoint, ...] = ()
    level: float | None = None
    """The mean of an arm that does not depend on the number."""
    interval: tuple[float, float] | None = None
    """The interval at the level."""


def over_rows(results: ComparisonResults) -> list[RowsCurve]:
    """Empty unless some arms differ in nothing but their number of rows. Others are shown beside them: those of a
    curve of their own as one point, those that learned nothing as a level."""
    families: list[list[ArmResult]] = []
    untrained: list[ArmResult] = []
    for arm in results.arms:
        if not arm.records or not arm.values:
            continue
        if _is_untrained(arm.records[0]):
            untrained.append(arm)
        elif _rows(arm.records[0]) is not None:
            alike = (arms for arms in families if _are_alike(arms[0], arm))
            if (family := next(alike, None)) is None:
                families.append([arm])
            else:
                family.append(arm)
    if all(len({_rows(arm.records[0]) for arm in arms}) == 1 for arms in families):
        return []
    levels = [RowsCurve(arm.name, (), fmean(arm.values), _around(arm, results)) for arm in untrained]
    return [_curve(arms, results) for arms in families] + levels


def _around(arm: ArmResult, results: ComparisonResults) -> tuple[float, float] | None:
    return mean_interval(arm.values, results.alpha, results.measured)


def _curve(arms: Sequence[ArmResult], results: ComparisonResults) -> RowsCurve:
    points = [RowsPoint(_rows(arm.records[0]) or 0, fmean(arm.values), _around(arm, results), arm.name) for arm in arms]
    name = _common([arm.name for arm in arms]) if len(arms) > 1 else ""
    return RowsCurve(name or arms[0].name, tuple(sorted(points, key=lambda point: point.rows)))


def _common(names: Sequence[str]) -> str:
    """Return the common prefix of the names, without numbers at its end: scratch of scratch_100 and scratch_1000."""
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in alike).rstrip("0123456789").rstrip("_-@ ")


def _rows(record: RunRecord) -> int | None:
    """Return the requested number of rows, or all there were; None if no record has it."""
    rows: int | None = _trainer(record).get(FIELD)
    return record.data.get(FIELD) if rows is None else rows


def _is_untrained(record: RunRecord) -> bool:
    fitted = str(record.config.get("model", {}).get("_target_", "")).endswith(f".{_FITTED}")
    return _trainer(record).get("max_steps") == 0 and not fitted


def _trainer(record: RunRecord) -> Mapping[str, Any]:
    trainer: Mapping[str, Any] = record.config.get("trainer", {})
    return trainer


def _are_alike(one: ArmResult, other: ArmResult) -> bool:
    """But for their rows; each seed may start from a run of its own, which is the same one in both arms."""
    starts = {seed_of(record): _start(record) for record in one.records}
    same = all(starts.get(seed_of(record), _start(record)) == _start(record) for record in other.records)
    return same and _family(one.records[0]) == _family(other.records[0])


def _start(record: RunRecord) -> str | None:
    start: str | None = record.config.get("init_from")
    return start


def _family(record: RunRecord) -> str:
    """The configuration but for what tells runs of a curve apart, and where they start."""
    settings = {name: value for name, value in record.config.items() if name not in _OF_A_RUN}
    settings["trainer"] = {name: value for name, value in _trainer(record).items() if name != FIELD}
    settings["init_from"] = bool(record.config.get("init_from"))
    return json.dumps(settings, sort_keys=True, default=str)
