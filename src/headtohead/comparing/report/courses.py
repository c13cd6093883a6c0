"""What runs logged on their way, as columns to draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from headtohead.comparing.findings import Findings, Found
from headtohead.tracking.metrics import Curve
from headtohead.tracking.store import RunFolder

AXES = ("tokens", "FLOPs", "time", "steps")
_MOST = 400
"""Points of a line: more than a figure has pixels for."""


@dataclass(frozen=True)
class Course:
    """One metric over one run, or its mean over the runs of an arm."""

    arm: str
    seed: int | None
    """None: the mean."""
    status: str
    name: str
    """validation/loss."""
    along: Mapping[str, Sequence[float]]
    """By axis."""
    values: Sequence[float]
    thinned: bool = False

    @property
    def finished(self) -> bool:
        return self.status == "finished"


def courses_of(findings: Findings) -> list[Course]:
    """Of every run that has a folder, whatever became of it."""
    metric = findings.metric.partition("/")[2]
    wanted = {f"validation/{metric}", "validation/loss", "train/loss"}
    return [course for run in findings.runs for course in _courses(run, wanted)]


def mean_of(found: Sequence[Course], arm: str, name: str) -> Course | None:
    """None below two runs that finished, and where no step is common to them."""
    runs = [course for course in found if (course.arm, course.name) == (arm, name) and course.finished]
    if len(runs) < 2:
        return None
    places = [{step: place for place, step in enumerate(run.along["steps"])} for run in runs]
    common = sorted(set(places[0]).intersection(*places[1:]))
    if not common:
        return None

    def mean(columns: Sequence[Sequence[float]]) -> list[float]:
        return [fmean(column[place[step]] for column, place in zip(columns, places, strict=True)) for step in common]

    along = {axis: mean([run.along[axis] for run in runs]) for axis in AXES}
    return Course(arm, None, "finished", name, along, mean([run.values for run in runs]))


def _courses(run: Found, wanted: set[str]) -> Iterator[Course]:
    if run.record is None or run.record.path is None or not run.record.path.is_dir():
        return
    for name, curve in RunFolder(run.record.path).metrics().items():
        if name in wanted:
            kept = _kept(len(curve))
            along = {axis: [column[i] for i in kept] for axis, column in _columns(curve).items()}
            values = [curve.value[i] for i in kept]
            yield Course(run.arm, run.seed, run.status, name, along, values, len(kept) < len(curve))


def _columns(curve: Curve) -> dict[str, Sequence[float]]:
    return dict(zip(AXES, (curve.tokens, curve.flops, curve.seconds, curve.step), strict=True))


def _kept(length: int) -> list[int]:
    """Every n-th, and the last."""
    stride = -(-length // _MOST)
    return sorted({*range(0, length, stride), length - 1}) if length else []
