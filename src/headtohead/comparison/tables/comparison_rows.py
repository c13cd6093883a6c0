"""A contest arm by arm, as every format shows it: result, difference, verdict, costs, seeds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from headtohead.comparison.arms import Arm, ArmCosts
from headtohead.comparison.comparison import Comparison
from headtohead.comparison.contrasts import Kind
from headtohead.comparison.statistics.means import mean_interval


@dataclass(frozen=True)
class ComparisonRow:
    """One arm; None where it is not known, or for the baseline does not apply."""

    arm: str
    is_baseline: bool
    mean: float | None
    interval: tuple[float, float] | None
    """The interval of the mean, by Student's t at the comparison's error rate; within what the metric can be."""
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
    costs: ArmCosts

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


def rows_of(comparison: Comparison) -> list[ComparisonRow]:
    """Return the baseline first."""
    return [_row(comparison, arm) for arm in comparison.arms]


def as_data(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as data for JSON."""
    return {
        "metric": comparison.metric,
        "stage": comparison.stage,
        "direction": comparison.direction,
        "baseline": comparison.baseline,
        "margin": comparison.margin,
        "alpha": comparison.alpha,
        "chance": comparison.chance,
        "best": comparison.best,
        "arms": [row.as_data() for row in rows_of(comparison)],
        "verdicts": [verdict.as_data() for verdict in comparison.verdicts],
        "registered": [verdict.as_data() for verdict in comparison.registered],
        "budget": comparison.budget.to_dict(),
        "remarks": comparison.remarks,
        "unlike_conditions": [unlike.to_dict() for unlike in comparison.unlike],
    }


def _row(comparison: Comparison, arm: Arm) -> ComparisonRow:
    verdict = comparison.verdict_on(arm.name)
    is_baseline = arm.name == comparison.baseline
    unbeaten = bool(comparison.verdicts) and all(v.kind == "worse" for v in comparison.verdicts)
    return ComparisonRow(
        arm=arm.name,
        is_baseline=is_baseline,
        mean=fmean(arm.values) if arm.values else None,
        interval=mean_interval(arm.values, comparison.alpha, comparison.measured or comparison.metric),
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
