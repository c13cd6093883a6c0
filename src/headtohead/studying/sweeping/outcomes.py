"""How a trial of a sweep ended: its best logged value, as W&B sees it, and its status."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headtohead.studying.sweeping.sweep import Sweep
from headtohead.tracking.record import RunRecord
from headtohead.tracking.store import RunFolder

ENDED_EARLY = "ended early"
_WORDS: Mapping[str, str] = {"interrupted": ENDED_EARLY, "out_of_memory": "out of memory", "out_of_disk": "out of disk"}


@dataclass(frozen=True)
class Outcome:
    """Of a trial that has ended."""

    status: str
    """That of the record, in words."""
    value: float | None = None
    """The best that it logged; None where it failed or diverged."""
    step: int = 0
    reason: str | None = None
    record: RunRecord | None = None


def outcome_of(record: RunRecord, folder: Path, sweep: Sweep) -> Outcome:
    """From a record that says how its run ended."""
    status = _WORDS.get(record.status, record.status)
    value = _best(folder, sweep) if status in ("finished", ENDED_EARLY) else None
    return Outcome(status, value, record.progress.step, record.reason, record)


def logged(folder: Path, metric: str) -> tuple[list[int], list[float]]:
    """Steps and values of a run, as far as it has come; what is no number is left out, as W&B leaves it out."""
    curve = RunFolder(folder).metrics([metric]).get(metric)
    pairs = [] if curve is None else list(zip(curve.step, curve.value, strict=True))
    kept = [(step, value) for step, value in pairs if math.isfinite(value)]
    return [step for step, _ in kept], [value for _, value in kept]


def _best(folder: Path, sweep: Sweep) -> float | None:
    _, values = logged(folder, sweep.metric)
    return (max if sweep.larger_is_better else min)(values, default=None)
