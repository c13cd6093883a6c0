"""Records as arms of one contest: seeds as pairs, each arm against one of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from rich.table import Table
from rich.text import Text

from headtohead.comparing.arms import COUNTED, Arm, arm_of, arms_of, counts, set_apart
from headtohead.comparing.comparability import NotComparable, refuse_unlike
from headtohead.comparing.statistics.shapes import Scale
from headtohead.comparing.table import Line, line_of, number
from headtohead.comparing.verdict import Contrast, Registration, Verdict, verdicts_of
from headtohead.tracking.record import RunRecord

Direction = Literal["min", "max"]
_STYLES = {"better": "green", "worse": "red", "equivalent": "cyan", "undecided": "yellow"}
_LOWER_IS_BETTER = ("loss", "perplexity", "bits_per_byte")


@dataclass(frozen=True)
class Contest:
    """Arms, and the verdict of each against the baseline."""

    metric: str
    direction: Direction
    baseline: str
    arms: list[Arm]
    verdicts: list[Verdict]
    remarks: list[str]
    """What is to be known beside the verdicts."""


def contest_of(
    records: Iterable[RunRecord], against: str, *, metric: str | None = None, margin: float | None = None
) -> Contest:
    """Nothing was registered for records that are merely found, so every verdict is exploratory."""
    given = list(records)
    counted = [record for record in given if counts(record)]
    refuse_unlike(record for record in counted if record.status in COUNTED)
    lines = [line_of(record, metric=metric) for record in counted]
    names = sorted({arm_of(record) for record in counted})
    if against not in names:
        raise NotComparable(f"--against {against}: no run has this name; choose among {', '.join(names)}")
    if len(names) < 2:
        raise NotComparable(f"all runs are named {against}: runs of another name are needed to compare it with")
    told = _one_metric(lines)
    arms = arms_of([(record, line.value) for record, line in zip(counted, lines, strict=True)])
    direction = _direction(counted, told)
    values = {arm.name: arm.outcomes for arm in arms}
    contrasts = [Contrast(arm.name, against) for arm in arms if arm.name != against]
    registration = Registration(direction, metric=told.replace("_", " "), margin=margin, scale=_scale(lines, direction))
    remarks = [told for told in (set_apart(given),) if told]
    return Contest(told, direction, against, arms, verdicts_of(values, contrasts, registration), remarks)


def contest_table(contest: Contest) -> Table:
    """One line per arm, the baseline first."""
    table = Table(header_style="bold")
    table.add_column("arm", overflow="fold")
    for name in (f"mean {contest.metric.replace('_', ' ')}", "difference", "interval", "p"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for name in ("seeds", "diverged", "left out"):
        table.add_column(name, justify="right", no_wrap=True)
    verdicts = {verdict.arm: verdict for verdict in contest.verdicts}
    for arm in sorted(contest.arms, key=lambda arm: arm.name != contest.baseline):
        runs = [str(len(arm.outcomes)), str(arm.diverged), str(arm.left_out)]
        mean = number(fmean(arm.values)) if arm.values else number(None)
        table.add_row(Text(arm.name), mean, *_judged(verdicts.get(arm.name)), *runs)
    return table


def _judged(verdict: Verdict | None) -> list[str | Text]:
    if verdict is None:
        return ["", "", "", "baseline"]
    interval = f"{number(verdict.interval[0])} to {number(verdict.interval[1])}" if verdict.interval else number(None)
    p = number(verdict.p_adjusted)
    return [number(verdict.difference), interval, p, Text(verdict.kind, style=_STYLES[verdict.kind])]


def _one_metric(lines: Sequence[Line]) -> str:
    found = sorted({(line.metric, line.stage) for line in lines if line.status == "finished" and line.metric})
    if not found:
        raise NotComparable("no run has finished: there is nothing to compare")
    if len(found) > 1:
        told = ", ".join(f"{metric} on {stage}" for metric, stage in found)
        raise NotComparable(
            f"the runs report different results ({told}): choose one with --metric, measured on one split"
        )
    return str(found[0][0])


def _direction(records: Sequence[RunRecord], metric: str) -> Direction:
    """As the runs were selected, where they were selected by it."""
    selected = [record.selection.direction for record in records if record.selection.metric == metric]
    return selected[0] if selected else "min" if metric in _LOWER_IS_BETTER else "max"


def _scale(lines: Sequence[Line], direction: Direction) -> Scale | None:
    """From what a model that learned nothing gets to 0 or 1, where the values lie on such a scale."""
    chances = {line.baseline for line in lines if line.baseline is not None}
    best = 0.0 if direction == "min" else 1.0
    on_it = all(0 <= line.value <= 1 or direction == "min" for line in lines if line.value is not None)
    return Scale(min(chances), best) if len(chances) == 1 and best not in chances and on_it else None
