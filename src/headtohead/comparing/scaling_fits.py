"""Scaling laws of families of arms: loss against parameters, tokens and FLOPs, and where sizes and tokens both vary the
joint law and its compute-optimal frontier. Each point is a run of its own with a schedule of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, geometric_mean
from typing import Literal, get_args

import numpy as np

from headtohead.comparing.arms import arm_of
from headtohead.comparing.comparability import seed_of
from headtohead.comparing.statistics.scaling import Fitted, JointLaw, joint_law, power_law
from headtohead.comparing.statistics.sum_of_powers import STEEPEST
from headtohead.tracking.record import RunRecord

Axis = Literal["parameters", "tokens", "flops"]
AXES: tuple[Axis, ...] = get_args(Axis)
_LIMITS: dict[Axis, Axis] = {"parameters": "tokens", "tokens": "parameters", "flops": "parameters"}
_SAME = 0.02
"""Sizes that differ by less count as one."""
_BEYOND = 10.0
"""How far past the largest run the frontier is told, in FLOPs."""
_TOLD = 5
_NO_LAW = f"the exponent runs against its bound of {STEEPEST:g}, so these points follow no such law"
_NO_FLOOR = (
    "the fitted floor is zero, so that how fast the rest falls has no upper bound, and the best split is not known"
)


@dataclass(frozen=True)
class Point:
    """One finished run."""

    arm: str
    seed: int
    share: float
    parameters: float
    tokens: float
    flops: float
    loss: float


@dataclass(frozen=True)
class Fit:
    """loss = floor + scale * x ** -exponent, or why there is none."""

    axis: Axis
    points: tuple[Point, ...]
    """Those it was fitted to."""
    floor: Fitted | None = None
    scale: Fitted | None = None
    exponent: Fitted | None = None
    reason: str | None = None


@dataclass(frozen=True)
class FrontierPoint:
    """The split of these FLOPs that the joint law thinks best."""

    flops: float
    parameters: Fitted
    tokens: Fitted
    beyond: bool
    """Past the largest run: what is told there was never seen."""


@dataclass(frozen=True)
class JointFit:
    """loss = floor + scale * parameters ** -exponent + token_scale * tokens ** -token_exponent, or why not."""

    floor: Fitted | None = None
    scale: Fitted | None = None
    exponent: Fitted | None = None
    token_scale: Fitted | None = None
    token_exponent: Fitted | None = None
    frontier_exponent: Fitted | None = None
    frontier: tuple[FrontierPoint, ...] = ()
    reason: str | None = None


@dataclass(frozen=True)
class Family:
    """Arms that differ in size, or runs of one arm on different budgets."""

    name: str
    points: tuple[Point, ...]
    diverged: int
    """Runs that are no point of a law."""
    fits: tuple[Fit, ...]
    joint: JointFit | None
    """None where sizes and tokens do not vary apart."""


@dataclass(frozen=True)
class ScalingFits:
    """The laws of all families."""

    metric: str
    alpha: float
    families: tuple[Family, ...]


def scaling_fits(
    families: Mapping[str, Sequence[str]],
    measured: Iterable[tuple[RunRecord, float | None]],
    *,
    metric: str,
    axes: Sequence[Axis] = AXES,
    alpha: float = 0.05,
    samples: int = 400,
) -> ScalingFits:
    """measured: runs with their losses; trials of a tuning are no points, runs on a share of the budget are."""
    runs = [(record, loss) for record, loss in measured if record.place.trial is None]
    found = []
    for name, arms in families.items():
        own = [(record, loss) for record, loss in runs if arm_of(record) in arms]
        points = tuple(point for record, loss in own if (point := _point(record, loss)) is not None)
        diverged = sum(record.status == "diverged" for record, _ in own)
        fits = tuple(_fit(axis, points, alpha, samples) for axis in axes)
        found.append(Family(name, points, diverged, fits, _joint(points, alpha, samples)))
    return ScalingFits(metric, alpha, tuple(found))


def _point(record: RunRecord, loss: float | None) -> Point | None:
    parameters = record.costs.get("totals", {}).get("parameters")
    reached = record.progress
    if record.status != "finished" or loss is None or not parameters or not reached.tokens or not reached.flops:
        return None
    place = (arm_of(record), seed_of(record), record.place.share)
    return Point(*place, float(parameters), float(reached.tokens), reached.flops, loss)


def _fit(axis: Axis, points: Sequence[Point], alpha: float, samples: int) -> Fit:
    chosen = tuple(_chosen(axis, points))
    sizes, losses = [getattr(point, axis) for point in chosen], [point.loss for point in chosen]
    if not chosen:
        return Fit(axis, chosen, reason="no run has finished")
    try:
        law = power_law(sizes, losses, alpha=alpha, samples=samples)
    except ValueError as error:
        return Fit(axis, chosen, reason=str(error))
    if law.exponent.value >= STEEPEST:
        return Fit(axis, chosen, reason=_NO_LAW)
    return Fit(axis, chosen, law.floor, law.scale, law.exponent)


def _chosen(axis: Axis, points: Sequence[Point]) -> Iterator[Point]:
    """Of each size the runs on most tokens, and of each number of tokens those of the largest model, so that nothing
    else limits them; of FLOPs, those that no cheaper ones beat."""
    groups: dict[tuple[str, float], list[Point]] = {}
    for point in points:
        groups.setdefault((point.arm, point.share), []).append(point)
    envelope = axis == "flops" and _vary_apart(points)
    last: list[Point] | None = None
    for group in sorted(groups.values(), key=lambda group: (_mean(group, axis), -_mean(group, _LIMITS[axis]))):
        if last is not None and axis != "flops" and _mean(group, axis) <= (1 + _SAME) * _mean(last, axis):
            continue
        if last is not None and envelope and _mean(group, "loss") >= _mean(last, "loss"):
            continue
        last = group
        yield from group


def _mean(group: Sequence[Point], name: str) -> float:
    return fmean(getattr(point, name) for point in group)


def _vary_apart(points: Sequence[Point]) -> bool:
    """Some size was trained on several numbers of tokens, and the other way round."""
    by_size = {round(math.log(p.parameters), 2): set[float]() for p in points}
    by_tokens = {round(math.log(p.tokens), 2): set[float]() for p in points}
    for p in points:
        by_size[round(math.log(p.parameters), 2)].add(round(math.log(p.tokens), 2))
        by_tokens[round(math.log(p.tokens), 2)].add(round(math.log(p.parameters), 2))
    return max(map(len, by_size.values()), default=0) > 1 and max(map(len, by_tokens.values()), default=0) > 1


def _joint(points: Sequence[Point], alpha: float, samples: int) -> JointFit | None:
    if not _vary_apart(points):
        return None
    sizes, tokens, losses = ([getattr(p, name) for p in points] for name in ("parameters", "tokens", "loss"))
    try:
        law = joint_law(sizes, tokens, losses, alpha=alpha, samples=samples)
    except ValueError as error:
        return JointFit(reason=str(error))
    if max(law.exponent.value, law.token_exponent.value) >= STEEPEST:
        return JointFit(reason=_NO_LAW)
    fitted = (law.floor, law.scale, law.exponent, law.token_scale, law.token_exponent, law.frontier_exponent)
    if law.exponent.value <= 0 or law.token_exponent.value <= 0:
        return JointFit(*fitted, reason="the loss does not fall with both, so there is no best split")
    if law.floor.high is None:
        return JointFit(*fitted, reason=_NO_FLOOR)
    return JointFit(*fitted, frontier=tuple(_frontier(law, points)))


def _frontier(law: JointLaw, points: Sequence[Point]) -> Iterator[FrontierPoint]:
    """What a token costs a parameter is what it cost these runs."""
    per_token = geometric_mean([point.flops / (point.parameters * point.tokens) for point in points])
    least, most = min(point.flops for point in points), max(point.flops for point in points)
    for flops in [*np.geomspace(least, most, _TOLD).tolist(), _BEYOND * most]:
        parameters, tokens = law.frontier(flops, per_token=per_token)
        ends = (parameters.low, parameters.high, tokens.low, tokens.high)
        if all(end is not None and math.isfinite(end) for end in ends):
            yield FrontierPoint(flops, parameters, tokens, flops > most * (1 + _SAME))
