"""Who leads at which share of the budget, each point a run of its own with a schedule of its own, and where pairs of
arms cross.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from typing import Literal

import numpy as np

from headtohead.comparing.intervals import mean_interval
from headtohead.comparing.statistics.crossings import Crossing, crossings
from headtohead.comparing.verdict import Values

_FEWEST = 2
"""Seeds, below which nothing has a spread."""


@dataclass(frozen=True)
class Standing:
    """One arm at one share."""

    arm: str
    rank: int
    """1 is best; arms without a mean come last, and share a rank."""
    mean: float | None
    """None where no run has finished, or one diverged."""
    interval: tuple[float, float] | None
    seeds: int
    diverged: int


@dataclass(frozen=True)
class ShareRanking:
    """All arms at one share of the budget, best first."""

    share: float
    standings: tuple[Standing, ...]


@dataclass(frozen=True)
class PairCrossings:
    """Two arms whose curves cross over the budget; places are shares of it."""

    first: str
    second: str
    leader: str
    """Of the two, on the mean of the smallest share."""
    crossings: tuple[Crossing, ...]
    seeds: int

    @property
    def sentences(self) -> list[str]:
        """One for each crossing; the lead changes hands at every one of them."""
        other = self.second if self.leader == self.first else self.first
        told = []
        for place, crossing in enumerate(self.crossings):
            before, after = (self.leader, other) if place % 2 == 0 else (other, self.leader)
            at = f"{crossing.at:.0%} of the budget"
            if crossing.decided:
                told.append(
                    f"{before} leads before {at} and {after} after it (surely at {crossing.low:.0%} and at "
                    f"{crossing.high:.0%})"
                )
            else:
                told.append(
                    f"the curves of {before} and {after} cross at {at} within their interval "
                    f"({crossing.low:.0%} to {crossing.high:.0%}): no verdict on which leads on either side"
                )
        return told


@dataclass(frozen=True)
class Ranking:
    """Over all shares, the smallest first."""

    metric: str
    direction: Literal["min", "max"]
    alpha: float
    shares: tuple[ShareRanking, ...]
    pairs: tuple[PairCrossings, ...]
    """Those that cross; all pairs were looked at."""
    remarks: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether the order at the whole budget is another than at a smaller share."""
        orders = [[standing.arm for standing in each.standings] for each in self.shares]
        return any(order != orders[-1] for order in orders)


def ranking_of(
    values: Mapping[float, Values], arms: Sequence[str], *, metric: str, direction: Literal["min", "max"], alpha: float
) -> Ranking:
    """values by share, arm and seed; None is a run that diverged, and ranks last."""
    shares = sorted(values)
    ranked = tuple(
        ShareRanking(share, tuple(_standings(values[share], arms, direction, alpha, metric))) for share in shares
    )
    diverged = [arm for arm in arms if any(None in values[share].get(arm, {}).values() for share in shares)]
    found = [
        pair
        for one, other in combinations([arm for arm in arms if arm not in diverged], 2)
        if (pair := _pair(values, shares, (one, other), direction, alpha)) is not None
    ]
    remarks = (f"{arm} has runs that diverged: it ranks last there, and has no crossing points" for arm in diverged)
    return Ranking(metric, direction, alpha, ranked, tuple(found), tuple(remarks))


def _standings(
    values: Values, arms: Sequence[str], direction: Literal["min", "max"], alpha: float, metric: str
) -> Iterator[Standing]:
    sign = 1.0 if direction == "min" else -1.0
    means = {arm: _mean(list(values.get(arm, {}).values())) for arm in arms}
    order = sorted(arms, key=lambda arm: (means[arm] is None, sign * (means[arm] or 0.0)))
    known = sum(mean is not None for mean in means.values())
    for place, arm in enumerate(order, start=1):
        runs = list(values.get(arm, {}).values())
        rank = min(place, known + 1)
        yield Standing(arm, rank, means[arm], _interval(runs, alpha, metric), len(runs), runs.count(None))


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
    """Over the seeds that both arms have at every share."""
    sets = [set(values[share].get(name, {})) for share in shares for name in names]
    seeds = sorted(set.intersection(*sets)) if sets else []
    if len(seeds) < _FEWEST or len(shares) < 2:
        return None
    first, second = (
        np.array([[values[share][name][seed] for share in shares] for seed in seeds], dtype=np.float64)
        for name in names
    )
    found = crossings(shares, first, second, alpha=alpha)
    apart = (first - second).mean(axis=0)
    lead = apart[np.flatnonzero(apart)[0]] if apart.any() else 0.0
    leader = names[0] if (lead < 0) == (direction == "min") else names[1]
    return PairCrossings(*names, leader, tuple(found), len(seeds)) if found else None
