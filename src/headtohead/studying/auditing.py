"""Whether the runs that are done may be compared: by what they were measured with, and by what they really cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from headtohead.comparing.comparability import NotComparable, refuse_unlike
from headtohead.studying.cells import Cell
from headtohead.studying.planning import Plan
from headtohead.tracking.record import RunRecord

_OF_RUNS = {"training_flops": "flops", "tokens": "tokens", "seconds": "seconds"}
"""Figures that a record has of its own progress, by the budgets' names for them; all others are in its ledger."""
_FROM_FIRST_BATCHES = ("training_flops", "tokens")
_READING_ERROR = 0.01
"""Of figures that were planned from the first batches of a run, where rows are of many lengths."""


@dataclass(frozen=True)
class Audit:
    """What stands in the way of a verdict, and what is to be said beside it."""

    objections: tuple[str, ...]
    remarks: tuple[str, ...]


def audit(plan: Plan, finished: Mapping[Cell, RunRecord]) -> Audit:
    """Names the odd ones out; what the study allows is said, and no objection."""
    allowed = plan.study.allow_unlike
    try:
        remarks = [*refuse_unlike(finished.values(), allowed=allowed, metric=plan.study.metric), *_uncertain(plan)]
    except NotComparable as unlike:
        return Audit((f"no verdict: {unlike}",), ())
    unequal = list(_unequal(plan, finished))
    if not unequal or plan.study.budget is None:
        return Audit((), tuple(remarks))
    told = f"{plan.study.budget.name} is not what the runs had: {', '.join(unequal)}"
    if plan.study.budget.name == "equal_time":
        calibrated = "steps were matched by a calibration on an idle device, and runs share theirs with others"
        return Audit((), (*remarks, f"{told}; {calibrated}"))
    if "budget" in allowed:
        return Audit((), (*remarks, f"unlike by permission: {told}"))
    return Audit((f"no verdict: {told}; allow_unlike: [budget] compares them nevertheless",), tuple(remarks))


def _uncertain(plan: Plan) -> Iterator[str]:
    """Where the calibration was too coarse for what the budget tolerates."""
    if plan.matching is None:
        return
    for arm in plan.matching.arms:
        if arm.timing is not None and arm.uncertainty > plan.matching.budget.tolerance:
            yield (
                f"{arm.name} was matched by times that scatter by {arm.uncertainty:.0%}, more than the "
                f"{plan.matching.budget.tolerance:.0%} tolerated: steps are not known to take equal time"
            )


def _unequal(plan: Plan, finished: Mapping[Cell, RunRecord]) -> Iterator[str]:
    """Arms off by more than the budget tolerates, by their own records."""
    if plan.matching is None:
        return
    budget, study = plan.matching.budget, plan.study
    runs = {arm: [record for cell, record in finished.items() if cell.arm == arm] for arm in study.arms}
    costs = {arm: _mean(budget.figure, records) for arm, records in runs.items()}
    base = costs[study.baseline]
    slack = _READING_ERROR if budget.figure in _FROM_FIRST_BATCHES else 0.0
    for arm, cost in costs.items():
        if cost is not None and base and abs(cost / base - 1) > budget.tolerance + slack:
            yield f"{arm} {cost / base:.3g} times the {_words(budget.figure)} of {study.baseline}"


def _mean(figure: str, records: Sequence[RunRecord]) -> float | None:
    found = [cost for record in records if (cost := _cost(figure, record)) is not None]
    return fmean(found) if found else None


def _cost(figure: str, record: RunRecord) -> float | None:
    if figure in _OF_RUNS:
        return float(getattr(record.progress, _OF_RUNS[figure]))
    totals: Mapping[str, float] = record.costs.get("totals", {})
    return totals.get(figure)


def _words(figure: str) -> str:
    return figure.replace("_", " ").replace("flops", "FLOPs")
