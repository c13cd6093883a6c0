"""What arms are worth over the number of training rows: arms that differ in nothing else make one curve."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from statistics import fmean
from typing import Any

from headtohead.comparing.comparability import seed_of
from headtohead.comparing.findings import Findings, FoundArm
from headtohead.comparing.statistics.means import interval_of
from headtohead.tracking.record import RunRecord

FIELD = "train_rows"
"""Of conf/trainer."""
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
    """Arms by their number of rows; one that was given none has no points but `mean`."""

    name: str
    points: tuple[RowsPoint, ...] = ()
    mean: float | None = None
    """Of an arm that does not depend on the number."""


def over_rows(findings: Findings) -> list[RowsCurve]:
    """Empty unless some arms differ in nothing but their number of rows. Arms that take no steps and fit nothing are
    shown beside them."""
    families: list[list[FoundArm]] = []
    beside: list[FoundArm] = []
    for arm in findings.arms:
        if not arm.records or not arm.values:
            continue
        if _rows(arm.records[0]) is None:
            beside.append(arm)
        else:
            alike = (arms for arms in families if _are_alike(arms[0], arm))
            if (family := next(alike, None)) is None:
                families.append([arm])
            else:
                family.append(arm)
    curves = [_curve(arms, findings.alpha) for arms in families if len(arms) > 1]
    if not curves:
        return []
    return curves + [RowsCurve(arm.name, mean=fmean(arm.values)) for arm in beside if _is_untrained(arm.records[0])]


def _curve(arms: Sequence[FoundArm], alpha: float) -> RowsCurve:
    points = [
        RowsPoint(_rows(arm.records[0]) or 0, fmean(arm.values), interval_of(arm.values, alpha), arm.name)
        for arm in arms
    ]
    return RowsCurve(
        _common([arm.name for arm in arms]) or arms[0].name, tuple(sorted(points, key=lambda point: point.rows))
    )


def _common(names: Sequence[str]) -> str:
    """What they begin with, without numbers at its end: scratch of scratch_100 and scratch_1000."""
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in alike).rstrip("0123456789").rstrip("_-@ ")


def _rows(record: RunRecord) -> int | None:
    return _trainer(record).get(FIELD)


def _is_untrained(record: RunRecord) -> bool:
    return _trainer(record).get("max_steps") == 0


def _trainer(record: RunRecord) -> Mapping[str, Any]:
    trainer: Mapping[str, Any] = record.config.get("trainer", {})
    return trainer


def _are_alike(one: FoundArm, other: FoundArm) -> bool:
    """But for their rows; each seed may start from a run of its own, which is the same one in both arms."""
    starts = {seed_of(record): _start(record) for record in one.records}
    same = all(starts.get(seed_of(record), _start(record)) == _start(record) for record in other.records)
    return same and _family(one.records[0]) == _family(other.records[0])


def _start(record: RunRecord) -> str | None:
    start: str | None = record.config.get("init_from")
    return start


def _family(record: RunRecord) -> str:
    """The configuration but for what tells runs of a curve apart, and where they start."""
    kept = {name: value for name, value in record.config.items() if name not in _OF_A_RUN}
    kept["trainer"] = {name: value for name, value in _trainer(record).items() if name != FIELD}
    kept["init_from"] = bool(record.config.get("init_from"))
    return json.dumps(kept, sort_keys=True, default=str)
