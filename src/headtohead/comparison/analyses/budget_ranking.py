"""Rank arms at each share of the budget, each point a run with a schedule of its own, and find where pairs of arms
cross."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from headtohead.comparison.contrasts import Values
from headtohead.comparison.statistics.means import mean_interval, paired
from headtohead.errors import UsageError


@dataclass(frozen=True)
class Crossing:
    """A point of the budget at which the mean difference changes sign."""

    at: float
    low: float
    high: float
    """The nearest measured points on either side that are decided; the ends of the curve where there is none."""
    decided: bool
    """Each side has a point at which the other arm leads for sure; else the curves only touch within the interval."""


def crossings(budget: ArrayLike, first: ArrayLike, second: ArrayLike, *, alpha: float = 0.05) -> list[Crossing]:
    """Return the crossings of two curves [seeds, points]; between points the difference is linear in log budget."""
    x = np.asarray(budget, dtype=np.float64)
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if (np.diff(x) <= 0).any() or x[0] <= 0:
        raise UsageError("budget: rising numbers above 0 are needed")
    estimate = paired(a.T, b.T)
    low, high = estimate.interval(alpha)
    sure = np.where(low > 0, 1, np.where(high < 0, -1, 0))
    mean = estimate.difference
    # a point of exactly no difference belongs to the side it comes from
    signs = np.sign(mean)
    for i in range(1, len(signs)):
        signs[i] = signs[i] or signs[i - 1]
    before_crossing = np.flatnonzero(signs[1:] * signs[:-1] < 0)
    return [_crossing(np.log(x), mean, sure, int(i)) for i in before_crossing]


def _crossing(log_x: np.ndarray, mean: np.ndarray, sure: np.ndarray, i: int) -> Crossing:
    share = mean[i] / (mean[i] - mean[i + 1])
    at = log_x[i] + share * (log_x[i + 1] - log_x[i])
    before, after = np.flatnonzero(sure[: i + 1]), np.flatnonzero(sure[i + 1 :]) + i + 1
    decided = bool(before.size and after.size and sure[before[-1]] * sure[after[0]] < 0)
    low = log_x[before[-1]] if before.size else log_x[0]
    high = log_x[after[0]] if after.size else log_x[-1]
    return Crossing(float(np.exp(at)), float(np.exp(low)), float(np.exp(high)), decided)


_FEWEST = 2
"""Seeds, below which nothing has a spread."""


@dataclass(frozen=True)
class ArmRank:
    """One arm at one share."""

    arm: str
    rank: int
    """1 is best; arms without a mean come last, and share a rank."""
    mean: float | None
    """Return None where no run has finished, or one diverged."""
    interval: tuple[float, float] | None
    seeds: int
    diverged: int


@dataclass(frozen=True)
class ShareRanking:
    """All arms at one share of the budget, best first."""

    share: float
    standings: tuple[ArmRank, ...]


@dataclass(frozen=True)
class PairCrossings:
    """Two arms whose curves cross over the budget; places are shares of it."""

    first: str
    second: str
    leader: str
    """The arm of the two that leads on the mean of the smallest share."""
    crossings: tuple[Crossing, ...]
    seeds: int

    @property
    def sentences(self) -> list[str]:
        """Return one for each crossing; the lead changes hands at every one of them."""
        other = self.second if self.leader == self.first else self.first
        sentences = []
        for index, crossing in enumerate(self.crossings):
            before, after = (self.leader, other) if index % 2 == 0 else (other, self.leader)
            at = f"{crossing.at:.0%} of the budget"
            if crossing.decided:
                sentences.append(
                    f"{before} leads before {at} and {after} after it (surely at {crossing.low:.0%} and at "
                    f"{crossing.high:.0%})"
                )
            else:
                sentences.append(
                    f"the curves of {before} and {after} cross at {at} within their interval "
                    f"({crossing.low:.0%} to {crossing.high:.0%}): no verdict on which leads on either side"
                )
        return sentences


@dataclass(frozen=True)
class BudgetRanking:
    """A budget ranking holds the rankings at all shares, the smallest first."""

    metric: str
    direction: Literal["min", "max"]
    alpha: float
    shares: tuple[ShareRanking, ...]
    pairs: tuple[PairCrossings, ...]
    """Those that cross; all pairs were looked at."""
    remarks: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Return whether the order at the whole budget differs from that at a smaller share."""
        orders = [[standing.arm for standing in each.standings] for each in self.shares]
        return any(order != orders[-1] for order in orders)


def ranking_of(
    values: Mapping[float, Values], arms: Sequence[str], *, metric: str, direction: Literal["min", "max"], alpha: float
) -> BudgetRanking:
    """Rank values by share, arm and seed; None is a run that diverged, and ranks last."""
    shares = sorted(values)
    ranked = tuple(
        ShareRanking(share, tuple(_ranks(values[share], arms, direction, alpha, metric))) for share in shares
    )
    diverged = [arm for arm in arms if any(None in values[share].get(arm, {}).values() for share in shares)]
    rankings = [
        pair
        for one, other in combinations([arm for arm in arms if arm not in diverged], 2)
        if (pair := _pair(values, shares, (one, other), direction, alpha)) is not None
    ]
    remarks = (f"{arm} has runs that diverged: it ranks last there, and has no crossing points" for arm in diverged)
    return BudgetRanking(metric, direction, alpha, ranked, tuple(rankings), tuple(remarks))


def _ranks(
    values: Values, arms: Sequence[str], direction: Literal["min", "max"], alpha: float, metric: str
) -> Iterator[ArmRank]:
    sign = 1.0 if direction == "min" else -1.0
    means = {arm: _mean(list(values.get(arm, {}).values())) for arm in arms}
    order = sorted(arms, key=lambda arm: (means[arm] is None, sign * (means[arm] or 0.0)))
    known = sum(mean is not None for mean in means.values())
    for index, arm in enumerate(order, start=1):
        runs = list(values.get(arm, {}).values())
        rank = min(index, known + 1)
        yield ArmRank(arm, rank, means[arm], _interval(runs, alpha, metric), len(runs), runs.count(None))


def _mean(runs: Sequence[float | None]) -> float | None:
    finished = [value for value in runs if value is not None]
    return fmean(finished) if finished and len(finished) == len(runs) else None


def _interval(runs: Sequence[float | None], alpha: float, metric: str) -> tuple[float, float] | None:
    finished = [value for value in runs if value is not None]
    return None if len(finished) < max(_FEWEST, len(runs)) else mean_interval(finished, alpha, metric)


def _pair(
    values: Mapping[float, Values],
    shares: Sequence[float],
    names: tuple[str, str],
    direction: Literal["min", "max"],
    alpha: float,
) -> PairCrossings | None:
    """Compare two arms over the seeds that both have at every share."""
    sets = [set(values[share].get(name, {})) for share in shares for name in names]
    seeds = sorted(set.intersection(*sets)) if sets else []
    if len(seeds) < _FEWEST or len(shares) < 2:
        return None
    first, second = (
        np.array([[values[share][name][seed] for share in shares] for seed in seeds], dtype=np.float64)
        for name in names
    )
    result = crossings(shares, first, second, alpha=alpha)
    apart = (first - second).mean(axis=0)
    lead = apart[np.flatnonzero(apart)[0]] if apart.any() else 0.0
    leader = names[0] if (lead < 0) == (direction == "min") else names[1]
    return PairCrossings(*names, leader, tuple(result), len(seeds)) if result else None
