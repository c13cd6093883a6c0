"""What runs logged on their way, as columns to draw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from headtohead.comparing.findings import Findings, Found
from headtohead.comparing.table import GIVEN
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
    """Of every run that has a folder or came with a curve, whatever became of it."""
    wanted = set(names_of(findings))
    return [course for run in findings.runs for course in _courses(run, findings, wanted)]


def names_of(findings: Findings) -> list[str]:
    """What is drawn of all that runs logged, the metric on validation data first."""
    metric = findings.metric.partition("/")[2]
    return list(dict.fromkeys((f"validation/{metric}", f"{GIVEN}/{metric}", "validation/loss", "train/loss")))


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


def _courses(run: Found, findings: Findings, wanted: set[str]) -> Iterator[Course]:
    for name, curve in _logged(run, findings, wanted).items():
        if name in wanted:
            kept = _kept(len(curve))
            along = {axis: [column[i] for i in kept] for axis, column in _columns(curve).items()}
            values = [curve.value[i] for i in kept]
            yield Course(run.arm, run.seed, run.status, name, along, values, len(kept) < len(curve))


def _logged(run: Found, findings: Findings, wanted: set[str]) -> Mapping[str, Curve]:
    if run.record is None:
        return {}
    if run.record.id in findings.curves:
        return {f"{GIVEN}/{findings.metric.partition('/')[2]}": findings.curves[run.record.id]}
    folder = run.record.path
    try:
        return RunFolder(folder).metrics(wanted) if folder is not None and folder.is_dir() else {}
    except ValueError:  # zeros that a power failure left are no reason to have no report
        return {}


def without_course(findings: Findings, found: Sequence[Course]) -> list[str]:
    """Runs that finished and have a folder, of which nothing can be drawn."""
    drawn = {(course.arm, course.seed) for course in found}
    return [
        f"{run.arm}, seed {run.seed}"
        for run in findings.runs
        if run.record is not None and run.record.path is not None and run.status == "finished"
        if (run.arm, run.seed) not in drawn
    ]


def _columns(curve: Curve) -> dict[str, Sequence[float]]:
    return dict(zip(AXES, (curve.tokens, curve.flops, curve.seconds, curve.step), strict=True))


def _kept(length: int) -> list[int]:
    """Every n-th, and the last."""
    stride = -(-length // _MOST)
    return sorted({*range(0, length, stride), length - 1}) if length else []
