"""All that a study found, as every report reads it: the runs, their verdicts, and what led to them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headtohead.comparison.analyses.ability_scores import AbilityMetric, AbilityScores, ability_scores
from headtohead.comparison.analyses.budget_ranking import BudgetRanking, ranking_of
from headtohead.comparison.analyses.effects import Effects, EffectSettings, Factors, effects_of
from headtohead.comparison.analyses.scaling_fits import ScalingFits, scaling_fits
from headtohead.comparison.comparison_results import ArmDescriptions, ComparisonResults, RunResult, results_of, value_of
from headtohead.comparison.contrasts import Values
from headtohead.config.compose.overrides import key_of
from headtohead.config.run_config import RunConfig
from headtohead.execution.run_spec import RunSpec
from headtohead.records.record import COUNTED, RunRecord
from headtohead.studies.planning.study_plan import StudyPlan
from headtohead.studies.planning.study_progress import summary_of
from headtohead.studies.results.study_report import StudyReport
from headtohead.studies.results.study_verdicts import scale_of

_PARTS = ("matching", "tuning", "effects", "left_out", "scaling", "ranking", "lengths", "abilities")
_ABILITIES = ("data", "task", "experiment")
"""Choices that say what is to be learned: values of different ones lie on different scales."""


def results_from_study(
    plan: StudyPlan, report: StudyReport, *, command: str | None = None, config_dir: str | None = None
) -> ComparisonResults:
    """Return the same verdicts as the report's, with all that stands behind them."""
    study = plan.study
    result = results_of(
        [record for run in plan.family if (record := report.records[run]) is not None],
        report.verdicts,
        title=study.name,
        metric=study.metric,
        direction=study.direction,
        baseline=study.baseline,
        alpha=study.alpha,
        words=ArmDescriptions(
            order=list(study.arms),
            overrides={arm: plan.what_makes(arm) for arm in study.arms},
            commands={run.id: command_of(run, report.records[run], config_dir) for run in plan.family},
        ),
        undone=[
            RunResult(run.arm, run.seed, "missing", command=command_of(run, None, config_dir))
            for run in plan.family
            if report.records[run] is None
        ],
    )
    tuning = summary_of(plan.tunings)
    words = study.tuning if isinstance(study.tuning, str) else None if tuning is None else tuning.sentence
    return replace(
        result,
        question=study.question,
        hypothesis=study.hypothesis,
        tuning_words=words,
        margin=study.margin,
        budget=study.budget_name,
        command=command,
        resumes=True,
        remarks=report.remarks,
        history=report.history.sentences,
        matching=plan.matching.to_dict() if plan.matching is not None else None,
        tuning=tuning,
        effects=effects_in(plan, report),
        abilities=abilities_in(plan, result),
        left_out=plan.left_out,
        scaling=scaling_in(plan, report),
        ranking=ranking_in(plan, report),
    )


def command_of(run: RunSpec, record: RunRecord | None, config_dir: str | None) -> str:
    """Makes the run again, on as many threads: sums of another number of parts round otherwise."""
    threads = record.config.get("trainer", {}).get("threads") if record is not None else None
    also = [f"trainer.threads={threads}"] if threads and not RunConfig(run.config).threads else []
    where = ["--config-dir", config_dir] if config_dir else []
    return f"h2h train {shlex.join([*run.overrides, *also, *where])}"


def report_data(report: StudyReport, results: ComparisonResults) -> dict[str, Any]:
    """Return the content of verdict.json: the report, and the parts that not every study has."""
    parts = results.to_dict()
    return {**report.to_dict(), **{name: parts[name] for name in _PARTS if parts[name]}}


def effects_in(plan: StudyPlan, report: StudyReport) -> Effects | None:
    """Return None without an ablation, where arms may not be compared, and where a factor chooses what is learned."""
    study, factors = plan.study, factors_in(plan)
    if factors is None or not report.verdicts or ability_factor(plan) is not None:
        return None
    reading = EffectSettings(
        metric=study.metric,
        direction=study.direction,
        level=min(verdict.level for verdict in report.verdicts),
        exploratory=[verdict.arm for verdict in report.verdicts if verdict.exploratory],
        scale=scale_of(study, _ended(plan, report).values()),
    )
    return effects_of(factors, _values(plan, report, 1.0), reading)


def factors_in(plan: StudyPlan) -> Factors | None:
    """Return the design of the ablation, without the combinations that cannot be; None where there is none."""
    ablation = plan.study.ablation
    if ablation is None:
        return None
    levels = {
        factor: (ablation.base[factor], *(level for level in known if level != ablation.base[factor]))
        for factor, known in ablation.factors.items()
    }
    arms = {arm: run for arm, run in ablation.design().items() if arm in plan.study.arms}
    return Factors(levels, arms, crossed=ablation.kind != "one_factor")


def ability_factor(plan: StudyPlan) -> str | None:
    """Return the factor of a crossed ablation whose every level chooses data, task or experiment; None without one."""
    ablation = plan.study.ablation
    if ablation is None or ablation.kind == "one_factor" or len(ablation.factors) < 2:
        return None
    chosen = [
        factor
        for factor, levels in ablation.factors.items()
        if all(any(key_of(override) in _ABILITIES for override in overrides) for overrides in levels.values())
    ]
    return chosen[0] if len(chosen) == 1 else None


def abilities_in(plan: StudyPlan, results: ComparisonResults) -> AbilityScores | None:
    """Return who can do what, where a design crosses contestants with data or tasks."""
    study, factors, across = plan.study, factors_in(plan), ability_factor(plan)
    if factors is None or across is None:
        return None
    records = {arm.name: arm.records for arm in results.arms}
    return ability_scores(factors.arms, across, records, AbilityMetric(study.metric, study.direction, study.best))


def scaling_in(plan: StudyPlan, report: StudyReport) -> ScalingFits | None:
    """Return None where no law was requested. Runs on a share of the budget are points like others."""
    study = plan.study
    if study.scaling is None:
        return None
    measured = [(record, value_of(record, study.metric)) for record in _ended(plan, report).values()]
    return scaling_fits(study.families, measured, metric=study.metric, axes=study.scaling.axes, alpha=study.alpha)


def ranking_in(plan: StudyPlan, report: StudyReport) -> BudgetRanking | None:
    """Return None where the whole budget is the only point, and where arms may not be compared."""
    study = plan.study
    if len(study.shares) < 2 or not report.verdicts:
        return None
    values = {share: _values(plan, report, share) for share in study.shares}
    return ranking_of(values, list(study.arms), metric=study.metric, direction=study.direction, alpha=study.alpha)


def _values(plan: StudyPlan, report: StudyReport, share: float) -> Values:
    """A run that diverged is None; one that could not be made has no entry."""
    values: dict[str, dict[int, float | None]] = {arm: {} for arm in plan.study.arms}
    for run, record in _ended(plan, report).items():
        value = value_of(record, plan.study.metric)
        if run.share == share and (record.status == "diverged" or value is not None):
            values[run.arm][run.seed] = value
    return values


def _ended(plan: StudyPlan, report: StudyReport) -> Mapping[RunSpec, RunRecord]:
    ended = ((run, report.records[run]) for run in plan.runs if run.trial is None)
    return {run: record for run, record in ended if record is not None and record.status in COUNTED}
