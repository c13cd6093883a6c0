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

from headtohead.comparison.comparability import seed_of
from headtohead.comparison.statistics.scaling_laws import STEEPEST, FittedValue, JointLaw, joint_law, power_law
from headtohead.records.record import RunRecord

Axis = Literal["parameters", "tokens", "flops"]
AXES: tuple[Axis, ...] = get_args(Axis)
_LIMITS: dict[Axis, Axis] = {"parameters": "tokens", "tokens": "parameters", "flops": "parameters"}
_SAME = 0.02
"""Sizes that differ by less count as one."""
_BEYOND = 10.0
"""The distance beyond the largest run up to which the frontier is shown, as a factor of FLOPs."""
_NAMES = 5
_NO_LAW = f"the exponent runs against its bound of {STEEPEST:g}, so these points follow no such law"
_NO_FLOOR = "the fitted floor is zero, so the exponents have no upper bound, and the best split is unknown"


@dataclass(frozen=True)
class ScalingPoint:
    """One finished run."""

    arm: str
    seed: int
    share: float
    parameters: float
    tokens: float
    flops: float
    loss: float


@dataclass(frozen=True)
class ScalingFit:
    """loss = floor + scale * x ** -exponent, or why there is none."""

    axis: Axis
    points: tuple[ScalingPoint, ...]
    """Those it was fitted to."""
    floor: FittedValue | None = None
    scale: FittedValue | None = None
    exponent: FittedValue | None = None
    reason: str | None = None


@dataclass(frozen=True)
class FrontierPoint:
    """The split of these FLOPs that the joint law thinks best."""

    flops: float
    parameters: FittedValue
    tokens: FittedValue
    beyond: bool
    """Past the largest run: what is shown there was never seen."""


@dataclass(frozen=True)
class JointFit:
    """loss = floor + scale * parameters ** -exponent + token_scale * tokens ** -token_exponent, or why not."""

    floor: FittedValue | None = None
    scale: FittedValue | None = None
    exponent: FittedValue | None = None
    token_scale: FittedValue | None = None
    token_exponent: FittedValue | None = None
    frontier_exponent: FittedValue | None = None
    frontier: tuple[FrontierPoint, ...] = ()
    reason: str | None = None


@dataclass(frozen=True)
class ArmFamily:
    """Arms that differ in size, or runs of one arm on different budgets."""

    name: str
    points: tuple[ScalingPoint, ...]
    diverged: int
    """Runs that are not points of a law."""
    fits: tuple[ScalingFit, ...]
    joint: JointFit | None
    """Return None where sizes and tokens do not vary apart."""


@dataclass(frozen=True)
class ScalingFits:
    """The laws of all families."""

    metric: str
    alpha: float
    families: tuple[ArmFamily, ...]


def scaling_fits(
    families: Mapping[str, Sequence[str]],
    measured: Iterable[tuple[RunRecord, float | None]],
    *,
    metric: str,
    axes: Sequence[Axis] = AXES,
    alpha: float = 0.05,
    samples: int = 400,
) -> ScalingFits:
    """Fit laws to the losses of measured runs; trials of a tuning are not points, runs on a share of the budget are."""
    runs = [(record, loss) for record, loss in measured if record.place.trial is None]
    family_fits = []
    for name, arms in families.items():
        own = [(record, loss) for record, loss in runs if record.arm in arms]
        points = tuple(point for record, loss in own if (point := _point(record, loss)) is not None)
        diverged = sum(record.status == "diverged" for record, _ in own)
        fits = tuple(_fit(axis, points, alpha, samples) for axis in axes)
        family_fits.append(ArmFamily(name, points, diverged, fits, _joint(points, alpha, samples)))
    return ScalingFits(metric, alpha, tuple(family_fits))


def _point(record: RunRecord, loss: float | None) -> ScalingPoint | None:
    parameters = record.costs.get("totals", {}).get("parameters")
    reached = record.progress
    if record.status != "finished" or loss is None or not parameters or not reached.tokens or not reached.flops:
        return None
    key = (record.arm, seed_of(record), record.place.share)
    return ScalingPoint(*key, float(parameters), float(reached.tokens), reached.flops, loss)


def _fit(axis: Axis, points: Sequence[ScalingPoint], alpha: float, samples: int) -> ScalingFit:
    chosen = tuple(_chosen(axis, points))
    sizes, losses = [getattr(point, axis) for point in chosen], [point.loss for point in chosen]
    if not chosen:
        return ScalingFit(axis, chosen, reason="no run has finished")
    try:
        law = power_law(sizes, losses, alpha=alpha, samples=samples)
    except ValueError as error:
        return ScalingFit(axis, chosen, reason=str(error))
    if law.exponent.value >= STEEPEST:
        return ScalingFit(axis, chosen, reason=_NO_LAW)
    return ScalingFit(axis, chosen, law.floor, law.scale, law.exponent)


def _chosen(axis: Axis, points: Sequence[ScalingPoint]) -> Iterator[ScalingPoint]:
    """Yield the points on which nothing but this axis limits the loss: of each size the runs on most tokens, of each
    number of tokens those of the largest model, and of FLOPs those that no cheaper run beats."""
    groups: dict[tuple[str, float], list[ScalingPoint]] = {}
    for point in points:
        groups.setdefault((point.arm, point.share), []).append(point)
    envelope = axis == "flops" and _vary_apart(points)
    last: list[ScalingPoint] | None = None
    for group in sorted(groups.values(), key=lambda group: (_mean(group, axis), -_mean(group, _LIMITS[axis]))):
        if last is not None and axis != "flops" and _mean(group, axis) <= (1 + _SAME) * _mean(last, axis):
            continue
        if last is not None and envelope and _mean(group, "loss") >= _mean(last, "loss"):
            continue
        last = group
        yield from group


def _mean(group: Sequence[ScalingPoint], name: str) -> float:
    return fmean(getattr(point, name) for point in group)


def _vary_apart(points: Sequence[ScalingPoint]) -> bool:
    """Some size was trained on several numbers of tokens, and the other way round."""
    by_size = {round(math.log(p.parameters), 2): set[float]() for p in points}
    by_tokens = {round(math.log(p.tokens), 2): set[float]() for p in points}
    for p in points:
        by_size[round(math.log(p.parameters), 2)].add(round(math.log(p.tokens), 2))
        by_tokens[round(math.log(p.tokens), 2)].add(round(math.log(p.parameters), 2))
    return max(map(len, by_size.values()), default=0) > 1 and max(map(len, by_tokens.values()), default=0) > 1


def _joint(points: Sequence[ScalingPoint], alpha: float, samples: int) -> JointFit | None:
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


def _frontier(law: JointLaw, points: Sequence[ScalingPoint]) -> Iterator[FrontierPoint]:
    """Yield the frontier, assuming that a token costs per parameter what it cost these runs."""
    per_token = geometric_mean([point.flops / (point.parameters * point.tokens) for point in points])
    least, most = min(point.flops for point in points), max(point.flops for point in points)
    for flops in [*np.geomspace(least, most, _NAMES).tolist(), _BEYOND * most]:
        parameters, tokens = law.frontier(flops, per_token=per_token)
        ends = (parameters.low, parameters.high, tokens.low, tokens.high)
        if all(end is not None and math.isfinite(end) for end in ends):
            yield FrontierPoint(flops, parameters, tokens, flops > most * (1 + _SAME))
