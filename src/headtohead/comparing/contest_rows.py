"""A contest arm by arm, as every format shows it: result, difference, verdict, costs, seeds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from headtohead.comparing.arms import Arm, Costs
from headtohead.comparing.contest import Contest
from headtohead.comparing.intervals import mean_interval
from headtohead.comparing.verdict import Kind

_ALPHA = 0.05


@dataclass(frozen=True)
class Row:
    """One arm; None where it is not known, or for the baseline does not apply."""

    arm: str
    is_baseline: bool
    mean: float | None
    interval: tuple[float, float] | None
    """Of the mean, after Student, and not beyond what the metric can be."""
    seeds: int
    diverged: int
    left_out: int
    difference: float | None
    difference_interval: tuple[float, float] | None
    p: float | None
    """Adjusted for the family of contrasts."""
    verdict: Kind | None
    answer: str | None
    """The verdict, and why nothing was shown where that is known."""
    method: str | None
    stands_out: bool
    """A verdict says that it is better than the baseline; of the baseline, that all others are worse."""
    costs: Costs

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def rows_of(contest: Contest) -> list[Row]:
    """The baseline first."""
    return [_row(contest, arm) for arm in contest.arms]


def as_data(contest: Contest) -> dict[str, Any]:
    """For JSON."""
    return {
        "metric": contest.metric,
        "stage": contest.stage,
        "direction": contest.direction,
        "baseline": contest.baseline,
        "margin": contest.margin,
        "chance": contest.chance,
        "best": contest.best,
        "arms": [row.as_data() for row in rows_of(contest)],
        "verdicts": [verdict.as_data() for verdict in contest.verdicts],
        "registered": [verdict.as_data() for verdict in contest.registered],
        "budget": contest.budget.to_dict(),
        "remarks": contest.remarks,
        "unlike_conditions": [unlike.to_dict() for unlike in contest.unlike],
    }


def _row(contest: Contest, arm: Arm) -> Row:
    verdict = contest.verdict_on(arm.name)
    is_baseline = arm.name == contest.baseline
    unbeaten = bool(contest.verdicts) and all(v.kind == "worse" for v in contest.verdicts)
    return Row(
        arm=arm.name,
        is_baseline=is_baseline,
        mean=fmean(arm.values) if arm.values else None,
        interval=mean_interval(arm.values, _ALPHA, contest.measured or contest.metric),
        seeds=len(arm.outcomes),
        diverged=arm.diverged,
        left_out=arm.left_out,
        difference=verdict.difference if verdict else None,
        difference_interval=verdict.interval if verdict else None,
        p=verdict.p_adjusted if verdict else None,
        verdict=verdict.kind if verdict else None,
        answer=verdict.answer if verdict else None,
        method=verdict.method if verdict else None,
        stands_out=unbeaten if is_baseline else verdict is not None and verdict.kind == "better",
        costs=arm.costs,
    )
