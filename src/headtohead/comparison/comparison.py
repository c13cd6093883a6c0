"""Records as arms of one contest: seeds as pairs, each arm against one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headtohead.comparison.analyses.times_to_solve import TimesToSolve, unit_under
from headtohead.comparison.arms import Arm, arms_of, counts, excluded, sentence_on_no_number, short_names
from headtohead.comparison.budgets import BudgetCheck, budget_check, refuse_unequal
from headtohead.comparison.comparability import NotComparable, refuse_other_questions, refuse_unlike, seed_of
from headtohead.comparison.conditions import ConditionMismatch, sentences_on, unlike_conditions
from headtohead.comparison.contrasts import ALPHA, ComparisonSpec, Contrast, Registration, Times, Verdict
from headtohead.comparison.metric_scales import metric_in, mixed_units, scale_in
from headtohead.comparison.metric_words import TASKS
from headtohead.comparison.registered_answers import RegisteredAnswer, answers_of, not_registered
from headtohead.comparison.same_numbers import sentences_on_same_numbers
from headtohead.comparison.statistics.value_shapes import MetricScale
from headtohead.comparison.tables.run_table import TableLine, line_of
from headtohead.comparison.verdicts.verdict import verdicts_of
from headtohead.comparison.verdicts.verdict_details import with_rows
from headtohead.metrics import Direction, Metric
from headtohead.records.leaks import leaks_in
from headtohead.records.left_out import left_out_in
from headtohead.records.metrics_file import Curve
from headtohead.records.record import COUNTED, Comparability, RunRecord
from headtohead.records.run_summary import UNNAMED_STAGE

_FINER = 1.5
"""Times later that one arm is first measured than another, before it is reported."""


@dataclass(frozen=True)
class Comparison:
    """Arms, and the verdict of each against the baseline."""

    metric: str
    """The metric by which arms are judged, without its stage: loss."""
    stage: str
    """test, validation, test_4x; given, for the results of another program."""
    direction: Direction
    """The better direction of the metric: min or max."""
    baseline: str
    """The arm that the others are compared with."""
    arms: list[Arm]
    """The baseline first."""
    verdicts: list[Verdict]
    """The verdicts, one for each contrast."""
    budget: BudgetCheck
    """The check that all arms spent what the baseline did."""
    margin: float | None = None
    """The difference below which two arms count as equivalent; None where none was named."""
    remarks: list[str] = field(default_factory=list)
    """The remarks to be read beside the verdicts."""
    scale: MetricScale | None = None
    """The scale from the score of a model that learned nothing to the best there is; None where it is not known."""
    measured: Metric | None = None
    """The metric's definition, where a record or its name gives it."""
    registered: tuple[Verdict, ...] = ()
    """The answers that the runs' studies give to their own questions, where this is another."""
    unlike: list[ConditionMismatch] = field(default_factory=list)
    """Conditions other than what makes the arms in which their runs differ."""
    alpha: float = ALPHA
    """The error rate; intervals of means hold the rest."""

    @property
    def chance(self) -> float | None:
        """Return the score of a model that learned nothing."""
        return None if self.scale is None else self.scale.chance

    @property
    def best(self) -> float | None:
        """Return the best there is."""
        return None if self.scale is None else self.scale.best

    @property
    def notes(self) -> str:
        """Return the metric in words."""
        name = self.metric.replace("_", " ")
        return name if self.stage in ("test", UNNAMED_STAGE, TASKS) else f"{name} on {self.stage.replace('_', ' ')}"

    def verdict_on(self, arm: str) -> Verdict | None:
        """Return the one against the baseline."""
        against = (verdict for verdict in self.verdicts if verdict.baseline == self.baseline)
        return next((verdict for verdict in against if verdict.arm == arm), None)


def comparison_of(
    records: Iterable[RunRecord], spec: ComparisonSpec, curves: Mapping[str, Curve] | None = None
) -> Comparison:
    """Compare records. The question that a study registered is judged by its own verdicts; verdicts on other records,
    or on another question about a study's runs, are exploratory.

    `curves` of runs without a folder of their own, by run id, tell how soon they solved their task.
    """
    runs = list(records)
    counted = [record for record in runs if counts(record)]
    answers = answers_of(counted)
    spec = _as_registered(spec, list(answers.values()))
    remarks = [remark for remark in (excluded(runs),) if remark]
    with_outcome = [record for record in counted if record.status in COUNTED]
    remarks += refuse_unlike(with_outcome, allowed=spec.allowed, metric=spec.metric)
    _check_baseline(sorted({record.arm for record in counted}), spec.against)
    everything, counted = counted, _measurable(counted, list(answers.values()), spec.metric)
    lines = [line_of(record, metric=spec.metric) for record in counted]
    stage, metric = _one_metric(lines)
    refuse_other_questions(counted, stage)
    remarks += _taken_for(lines, stage)
    remarks += filter(None, [sentence_on_no_number(counted, f"{stage}/{metric}")])
    arms = arms_of([(_staged(r, stage), line.value) for r, line in zip(counted, lines, strict=True)], stage)
    arms.sort(key=lambda arm: arm.name != spec.against)
    check = budget_check(arms, spec.against)
    if spec.budget:
        refuse_unequal(check, spec.budget)
    _check_direction(counted, metric, spec.direction)
    direction = spec.direction or _direction(counted, metric)
    staged = [_staged(record, stage) for record in counted]
    remarks += mixed_units({arm.name: arm.records for arm in arms}, stage, metric)
    measured, scale = metric_in(staged, metric), scale_in(staged, stage, metric, direction=direction)
    comparison = Comparison(
        metric, stage, direction, spec.against, arms, [], check, spec.margin, remarks, scale, measured
    )
    other = not_registered(answers, everything, spec, f"{stage}/{metric}")
    known = [answer for answer in answers.values() if answer is not None]
    if other == "":
        return _registered(comparison, known[0])
    remarks += [*_guessed(counted, metric, direction, spec), *leaks_in(with_outcome), *left_out_in(with_outcome)]
    comparison = replace(comparison, remarks=remarks)
    result = _explored(comparison, counted, spec, curves, other)
    return replace(result, registered=tuple(verdict for answer in known for verdict in answer.verdicts))


def _explored(
    comparison: Comparison,
    counted: Sequence[RunRecord],
    spec: ComparisonSpec,
    curves: Mapping[str, Curve] | None,
    departure: str | None,
) -> Comparison:
    """The verdicts on runs for which this question was not registered."""
    arms, metric = comparison.arms, f"{comparison.stage}/{comparison.metric}"
    runs = [(arm.name, seed_of(record), record) for arm in arms for record in arm.records]
    unit = unit_under(spec.budget or _one_budget(counted))
    times = TimesToSolve(runs, metric, comparison.direction, curves, unit)
    read = Registration(
        comparison.direction,
        measured=comparison.measured,
        alpha=comparison.alpha,
        scale=comparison.scale,
        solved_at=spec.solved_at,
        time_unit=unit,
    )
    verdicts, why = _verdicts(comparison, read, times, departure)
    verdicts = with_rows(verdicts, [record for arm in arms for record in arm.records], metric)
    runs_of, contrasts = {arm.name: arm.records for arm in arms}, [(v.arm, v.baseline) for v in verdicts]
    unlike, same = unlike_conditions(runs_of, contrasts), sentences_on_same_numbers(runs_of, contrasts)
    sentences = [*comparison.remarks, *sentences_on(unlike), *same, *_alone(arms), *why, *_coarse(verdicts, times)]
    return replace(comparison, verdicts=verdicts, remarks=sentences, unlike=unlike)


def _as_registered(spec: ComparisonSpec, answers: Sequence[RegisteredAnswer | None]) -> ComparisonSpec:
    """The question of the one study that the runs are of, unless another is asked."""
    answer = answers[0] if len(answers) == 1 else None
    if answer is None:
        return spec
    allowed = (*spec.allowed, *(name for name in answer.allow_unlike if name not in spec.allowed))
    return replace(spec, metric=spec.metric or answer.metric, allowed=allowed)


def _measurable(
    records: Sequence[RunRecord], answers: Sequence[RegisteredAnswer | None], metric: str | None
) -> list[RunRecord]:
    """Arms that cannot be measured as their study asks have no verdict there, and its remarks say why."""
    if metric not in [answer.metric for answer in answers if answer is not None]:
        return list(records)
    stage = str(metric).partition("/")[0]
    return [record for record in records if stage not in record.cannot]


def _registered(comparison: Comparison, answer: RegisteredAnswer) -> Comparison:
    """Return all contrasts of the study, those among its other arms too."""
    remarks = [*comparison.remarks, *(remark for remark in answer.remarks if remark not in comparison.remarks)]
    return replace(
        comparison,
        direction=answer.direction,
        margin=answer.margin,
        alpha=answer.alpha,
        verdicts=list(answer.verdicts),
        remarks=[*remarks, *_alone(comparison.arms)],
        unlike=list(answer.unlike),
    )


def _guessed(records: Sequence[RunRecord], metric: str, direction: Direction, spec: ComparisonSpec) -> list[str]:
    """Return what a name was taken to mean where another program made the runs, and nothing says so."""
    external = [r for r in records if metric not in r.scales and r.comparability == Comparability()]
    if spec.direction is not None or not external:
        return []
    way = "less" if direction == "min" else "more"
    return [f"{way} of {metric} is taken to be better, as its name tells: --direction says otherwise"]


def _check_baseline(names: Sequence[str], against: str) -> None:
    if against not in names:
        known = ", ".join(short_names(names).values())
        raise NotComparable(f"--against {against}: no run has this name; choose among {known}")
    if len(names) < 2:
        raise NotComparable(f"all runs are named {against}: comparing needs runs of another name")


def _verdicts(
    comparison: Comparison, read: Registration, times: Times, departure: str | None
) -> tuple[list[Verdict], list[str]]:
    """Paired wherever the seeds allow it, one way for the whole family."""
    base, *others = comparison.arms
    apart = [arm.name for arm in others if not _pairs(arm, base)]
    registration = replace(read, metric=comparison.notes, margin=comparison.margin, paired=not apart)
    contrasts = [Contrast(arm.name, base.name, departure) for arm in others]
    verdicts = verdicts_of({arm.name: arm.outcomes for arm in comparison.arms}, contrasts, registration, times)
    if not apart:
        return verdicts, [sentence for arm in others for sentence in _unpaired(arm, base)]
    return verdicts, [
        f"nothing is paired: {', '.join(apart)} and {base.name} share fewer than two seeds, or a run without a partner "
        "diverged"
    ]


def _pairs(arm: Arm, base: Arm) -> bool:
    """Return whether to pair by seed; with a single seed no test is possible in any case, and divergences are never
    dropped."""
    shared = arm.outcomes.keys() & base.outcomes.keys()
    lost = any(value is None and seed not in shared for a in (arm, base) for seed, value in a.outcomes.items())
    return not lost and len(shared) >= min(2, len(arm.outcomes), len(base.outcomes))


def _unpaired(arm: Arm, base: Arm) -> list[str]:
    alone = sorted(arm.outcomes.keys() ^ base.outcomes.keys())
    if not alone:
        return []
    seeds_alone = f"seed{'' if len(alone) == 1 else 's'} {', '.join(map(str, alone))}"
    return [f"{seeds_alone} of {arm.name} or {base.name} without a partner, and left out of their difference"]


def _coarse(verdicts: Sequence[Verdict], times: TimesToSolve) -> list[str]:
    """Warn about arms that are measured less often and so seem to solve the task later."""
    timed = {
        name for verdict in verdicts if verdict.method == "time to solve" for name in (verdict.arm, verdict.baseline)
    }
    spacings = times.spacings(sorted(timed))
    if not spacings or max(spacings.values()) < _FINER * min(spacings.values()):
        return []
    unit = verdicts[0].time_unit
    times_by_arm = ", ".join(f"{arm} after {first:.3g} {unit}" for arm, first in spacings.items())
    return [f"times to solve are as coarse as the validations, which differ between arms: first {times_by_arm}"]


def _one_budget(records: Sequence[RunRecord]) -> str | None:
    """Return what was held equal in all of them."""
    kinds = {record.budget.get("kind") for record in records}
    return next(iter(kinds)) if len(kinds) == 1 else None


def _alone(arms: Sequence[Arm]) -> list[str]:
    silent = [arm.name for arm in arms if not arm.outcomes]
    return [f"no run of {', '.join(silent)} finished"] if silent else []


def _one_metric(lines: Sequence[TableLine]) -> tuple[str, str]:
    measured = {(str(line.stage), line.metric) for line in lines if line.status == "finished" and line.metric}
    if not measured:
        raise NotComparable("no run has finished with the requested result: there is nothing to compare")
    known = {(stage, metric) for stage, metric in measured if stage != UNNAMED_STAGE} or measured
    if len(known) > 1 or len({metric for _, metric in measured}) > 1:
        listed = ", ".join(f"{metric} on {stage}" for stage, metric in sorted(measured))
        raise NotComparable(
            f"the runs report different results ({listed}): choose one with --metric, measured on one split"
        )
    return next(iter(known))


def _taken_for(lines: Sequence[TableLine], stage: str) -> list[str]:
    external = sorted({line.arm for line in lines if line.stage == UNNAMED_STAGE})
    if stage == UNNAMED_STAGE or not external:
        return []
    return [f"the results of {', '.join(external)} name no split, and are taken as those on {stage}"]


def _staged(record: RunRecord, stage: str) -> RunRecord:
    """Results of another program count in the stage that they are compared in."""
    if UNNAMED_STAGE not in record.metrics:
        return record
    return replace(record, metrics={stage: record.metrics[UNNAMED_STAGE]}, path=record.path)


def _check_direction(records: Sequence[RunRecord], metric: str, direction: Direction | None) -> None:
    """Refuse the direction in which a result that the runs measured themselves is worse."""
    measured = next((record.scales[metric].direction for record in records if metric in record.scales), None)
    if direction is not None and measured not in (None, direction):
        better = "lower" if measured == "min" else "higher"
        raise NotComparable(
            f"--direction {direction}: {metric} is better the {better} it is, as these runs measured it: give "
            f"--direction {measured}, or leave it out"
        )


def _direction(records: Sequence[RunRecord], metric: str) -> Direction:
    """Return the direction by which the runs were selected, if by this metric, or else that of the metric."""
    selected = [record.selection.direction for record in records if record.selection.metric == metric]
    measured = metric_in(records, metric)
    result = selected[0] if selected else None if measured is None else measured.direction
    if result is None:
        raise NotComparable(
            f"the name of {metric} does not tell which direction is better: give --direction min or max"
        )
    return result
