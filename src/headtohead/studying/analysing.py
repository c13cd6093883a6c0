"""What a study's runs say beyond its verdicts: effects of factors, scaling laws, and the ranking over the budget."""

from __future__ import annotations

from collections.abc import Mapping

from headtohead.comparing.effects import Effects, Factors, Reading, effects_of
from headtohead.comparing.findings import value_of
from headtohead.comparing.ranking import Ranking, ranking_of
from headtohead.comparing.scaling_fits import ScalingFits, scaling_fits
from headtohead.comparing.verdict import Values
from headtohead.studying.cells import Cell
from headtohead.studying.judging import scale_of
from headtohead.studying.planning import Plan
from headtohead.studying.reporting import Report
from headtohead.studying.scaling import families_of
from headtohead.tracking.record import RunRecord


def effects_in(plan: Plan, report: Report) -> Effects | None:
    """None without an ablation, and where arms may not be compared."""
    study, factors = plan.study, factors_in(plan)
    if factors is None or not report.verdicts:
        return None
    reading = Reading(
        metric=study.metric,
        direction=study.direction,
        level=min(verdict.level for verdict in report.verdicts),
        exploratory=[verdict.arm for verdict in report.verdicts if verdict.exploratory],
        scale=scale_of(study, _ended(plan, report).values()),
    )
    return effects_of(factors, _values(plan, report, 1.0), reading)


def factors_in(plan: Plan) -> Factors | None:
    """The design of the ablation, without the combinations that cannot be; None where there is none."""
    ablation = plan.study.ablation
    if ablation is None:
        return None
    levels = {
        factor: (ablation.base[factor], *(level for level in known if level != ablation.base[factor]))
        for factor, known in ablation.factors.items()
    }
    arms = {arm: cell for arm, cell in ablation.design().items() if arm in plan.study.arms}
    return Factors(levels, arms, crossed=ablation.kind != "one_factor")


def scaling_in(plan: Plan, report: Report) -> ScalingFits | None:
    """None where no law was asked for. Runs on a share of the budget are points like others."""
    study = plan.study
    if study.scaling is None:
        return None
    measured = [(record, value_of(record, study.metric)) for record in _ended(plan, report).values()]
    return scaling_fits(families_of(study), measured, metric=study.metric, axes=study.scaling.axes, alpha=study.alpha)


def ranking_in(plan: Plan, report: Report) -> Ranking | None:
    """None where the whole budget is the only point, and where arms may not be compared."""
    study = plan.study
    if len(study.shares) < 2 or not report.verdicts:
        return None
    values = {share: _values(plan, report, share) for share in study.shares}
    return ranking_of(values, list(study.arms), metric=study.metric, direction=study.direction, alpha=study.alpha)


def _values(plan: Plan, report: Report, share: float) -> Values:
    """A run that diverged is None; one that could not be made has no entry."""
    values: dict[str, dict[int, float | None]] = {arm: {} for arm in plan.study.arms}
    for cell, record in _ended(plan, report).items():
        value = value_of(record, plan.study.metric)
        if cell.share == share and (record.status == "diverged" or value is not None):
            values[cell.arm][cell.seed] = value
    return values


def _ended(plan: Plan, report: Report) -> Mapping[Cell, RunRecord]:
    found = ((cell, report.records[cell]) for cell in plan.cells if cell.trial is None)
    return {cell: record for cell, record in found if record is not None and record.status in ("finished", "diverged")}
