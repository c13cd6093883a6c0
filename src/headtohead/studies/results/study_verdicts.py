"""Give a verdict on each contrast from the values of a study's runs, under the registered design."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from headtohead.comparison.analyses.times_to_solve import unit_under
from headtohead.comparison.comparability import NotComparable, refuse_unlike
from headtohead.comparison.contrasts import Contrast, Registration, SeedStop, Times, Values, Verdict
from headtohead.comparison.metric_scales import scale_in
from headtohead.comparison.statistics.value_shapes import MetricScale
from headtohead.comparison.verdicts.contrast_family import ContrastFamily, family_of
from headtohead.comparison.verdicts.verdict import verdicts_of
from headtohead.execution.run_spec import RunSpec
from headtohead.metrics import Metric
from headtohead.records.record import COUNTED, RunRecord
from headtohead.studies.definition.study import MEASURED_BUDGETS, Study
from headtohead.studies.definition.study_fields import unexpected
from headtohead.studies.planning.registration import RegisteredDesign
from headtohead.studies.planning.study_plan import StudyPlan

Outcome = tuple[str, int, str, float | None]
"""Arm, seed, status and value of one run."""


def verdicts_of_study(
    study: Study,
    outcomes: Iterable[Outcome],
    written: RegisteredDesign | None,
    current_design: RegisteredDesign,
    *,
    measured: Metric | None = None,
    scale: MetricScale | None = None,
    times: Times | None = None,
    stops: Mapping[tuple[str, str], SeedStop] | None = None,
) -> list[Verdict]:
    """Contrasts that were registered are one family, whether or not all of them are still asked, those that were not
    another; in the order of the study."""
    values = _values(study, outcomes)
    apart = {pair: list(written.departures(current_design, pair)) if written else None for pair in study.contrasts}
    ours = [pair for pair in study.contrasts if apart[pair] == []]
    others = [pair for pair in study.contrasts if pair not in ours]
    by_contrast: dict[tuple[str, str], Verdict] = {}
    dropped = len(set(written.contrasts) - set(ours)) if written else 0
    registered, explored = (
        _registration(study, *by, measured, scale, stops or {}) for by in ((written, dropped), (None, 0))
    )
    for pairs, design in ((ours, registered), (others, explored)):
        if pairs:
            contrasts = [Contrast(*pair, "; ".join(apart[pair] or ()) or None) for pair in pairs]
            verdicts = verdicts_of(values, contrasts, design, times)
            by_contrast |= zip(pairs, verdicts, strict=True)
    return [by_contrast[pair] for pair in study.contrasts]


def requested_family(study: Study) -> ContrastFamily:
    """Return what the study's contrasts can show together."""
    return family_of(
        max(1, len(study.contrasts)),
        len(study.seeds),
        alpha=study.alpha,
        interim_analyses=study.looks,
        paired=study.is_paired,
        can_be_solved=study.can_be_solved,
        rounds=study.rounds,
    )


def unexpected_verdicts(study: Study, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield a finding each."""
    for verdict in verdicts:
        expected = study.expected.get(verdict.arm) if verdict.baseline == study.baseline else None
        if expected and (sentence := unexpected(verdict, expected)) is not None:
            yield sentence


def scale_of(study: Study, records: Iterable[RunRecord]) -> MetricScale | None:
    """Return the scale from chance to the best value, of the study or of its metric."""
    return scale_in(records, *study.stage_and_name, direction=study.direction, best=study.best)


def _registration(
    study: Study,
    written: RegisteredDesign | None,
    num_dropped: int,
    measured: Metric | None,
    scale: MetricScale | None,
    stops: Mapping[tuple[str, str], SeedStop],
) -> Registration:
    return Registration(
        direction=study.direction,
        metric=study.metric,
        measured=measured,
        margin=study.margin,
        seeds=written.seeds if written else None,
        interim_analyses=written.looks if written else (),
        rounds=study.rounds,
        stops=stops,
        num_dropped=num_dropped,
        alpha=study.alpha,
        paired=study.is_paired,
        scale=scale,
        solved_at=study.solved_at,
        time_unit=unit_under(study.budget_name),
    )


def _values(study: Study, outcomes: Iterable[Outcome]) -> Values:
    """A run that diverged is a value of its own, None; one that could not be made has none."""
    values: dict[str, dict[int, float | None]] = {arm: {} for arm in study.arms}
    for arm, seed, status, value in outcomes:
        if status in COUNTED:
            values[arm][seed] = value
    return values


_OF_RUNS = {"training_flops": "flops", "tokens": "tokens", "seconds": "seconds"}
"""Figures that a record has of its own progress, by the budgets' names for them; all others are in its ledger."""
_MEASURED = {"seconds": "times", "joules": "joules"}
_FROM_FIRST_BATCHES = ("training_flops", "tokens")
_READING_ERROR = 0.01
"""The error of figures that were planned from the first batches of a run, where rows are of many lengths."""


@dataclass(frozen=True)
class RunChecks:
    """Run checks list what forbids a verdict, and the remarks beside it."""

    objections: tuple[str, ...]
    remarks: tuple[str, ...]


def check_runs(plan: StudyPlan, finished: Mapping[RunSpec, RunRecord]) -> RunChecks:
    """Names the odd ones out; what the study allows is reported, and is not an objection."""
    allowed = plan.study.allow_unlike
    try:
        remarks = [*refuse_unlike(finished.values(), allowed=allowed, metric=plan.study.metric), *_uncertain(plan)]
    except NotComparable as unlike:
        return RunChecks((f"no verdict: {unlike}",), ())
    unequal = list(_unequal(plan, finished))
    if not unequal or plan.study.budget is None:
        return RunChecks((), tuple(remarks))
    message = f"{plan.study.budget.name} is not what the runs had: {', '.join(unequal)}"
    if plan.study.budget.name in MEASURED_BUDGETS:
        calibrated = "steps were matched by a calibration on an idle device, and runs share theirs with others"
        return RunChecks((), (*remarks, f"{message}; {calibrated}"))
    if "budget" in allowed:
        return RunChecks((), (*remarks, f"unlike by permission: {message}"))
    return RunChecks((f"no verdict: {message}; allow_unlike: [budget] compares them anyway",), tuple(remarks))


def _uncertain(plan: StudyPlan) -> Iterator[str]:
    """Warn about arms whose calibration was too coarse for the budget's tolerance."""
    if plan.matching is None:
        return
    for arm in plan.matching.arms:
        if arm.timing is not None and arm.uncertainty > plan.matching.budget.tolerance:
            yield (
                f"{arm.name} was matched by {_MEASURED[plan.matching.budget.figure]} that scatter by "
                f"{arm.uncertainty:.0%}, more than the {plan.matching.budget.tolerance:.0%} tolerated: steps are not "
                f"known to take equal {'energy' if plan.matching.budget.figure == 'joules' else 'time'}"
            )


def _unequal(plan: StudyPlan, finished: Mapping[RunSpec, RunRecord]) -> Iterator[str]:
    """Arms off by more than the budget tolerates, by their own records."""
    if plan.matching is None:
        return
    budget, study = plan.matching.budget, plan.study
    runs = {arm: [record for run, record in finished.items() if run.arm == arm] for arm in study.arms}
    costs = {arm: _mean(budget.figure, records) for arm, records in runs.items()}
    base = costs[study.baseline]
    slack = _READING_ERROR if budget.figure in _FROM_FIRST_BATCHES else 0.0
    for arm, cost in costs.items():
        if cost is not None and base and abs(cost / base - 1) > budget.tolerance + slack:
            yield f"{arm} {cost / base:.3g} times the {_words(budget.figure)} of {study.baseline}"


def _mean(figure: str, records: Sequence[RunRecord]) -> float | None:
    costs = [cost for record in records if (cost := _cost(figure, record)) is not None]
    return fmean(costs) if costs else None


def _cost(figure: str, record: RunRecord) -> float | None:
    if figure in _OF_RUNS:
        return float(getattr(record.progress, _OF_RUNS[figure]))
    if figure == "joules":
        return record.throughput.get("joules")
    totals: Mapping[str, float] = record.costs.get("totals", {})
    return totals.get(figure)


def _words(figure: str) -> str:
    return figure.replace("_", " ").replace("flops", "FLOPs")
