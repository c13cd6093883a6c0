"""Records as arms of one contest: seeds as pairs, each arm against one of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headtohead.comparing.arms import COUNTED, Arm, arm_of, arms_of, counts, set_apart
from headtohead.comparing.budgets import BudgetCheck, budget_check, refuse_unequal
from headtohead.comparing.comparability import NotComparable, refuse_other_questions, refuse_unlike, seed_of
from headtohead.comparing.conditions import UnlikeConditions, sentences_on, unlike_conditions
from headtohead.comparing.registered import RegisteredAnswer, answers_of, not_registered
from headtohead.comparing.row_intervals import with_rows
from headtohead.comparing.scales import metric_in, scale_in
from headtohead.comparing.solving import TimesToSolve, unit_under
from headtohead.comparing.statistics.shapes import Scale
from headtohead.comparing.table import GIVEN, TASKS, Line, line_of
from headtohead.comparing.verdict import Contrast, Registration, Times, Verdict, verdicts_of
from headtohead.metrics import Direction, Metric
from headtohead.tracking.leaks import leaks_in
from headtohead.tracking.metrics import Curve
from headtohead.tracking.record import Comparability, RunRecord

_FINER = 1.5
"""Times later that one arm is first measured than another, before it is said."""


@dataclass(frozen=True)
class Terms:
    """How found runs are to be compared."""

    against: str
    """The baseline, an arm."""
    metric: str | None = None
    """accuracy, or with its stage validation/loss; None: what the runs report first."""
    direction: Direction | None = None
    """None: as the runs were selected, or as the metric's name tells."""
    margin: float | None = None
    allowed: Collection[str] = ()
    """What may be unlike, by the names in comparability.ALIKE."""
    budget: str | None = None
    """equal_flops: refuse arms whose FLOPs differ."""
    solved_at: float | None = None
    """The value from which on a run counts as solved: then solve rates are compared, and times where all solve it."""


@dataclass(frozen=True)
class Contest:
    """Arms, and the verdict of each against the baseline."""

    metric: str
    stage: str
    """test, validation, test_4x; given, for the results of another program."""
    direction: Direction
    baseline: str
    arms: list[Arm]
    """The baseline first."""
    verdicts: list[Verdict]
    budget: BudgetCheck
    margin: float | None = None
    remarks: list[str] = field(default_factory=list)
    """What is to be known beside the verdicts."""
    scale: Scale | None = None
    """From what a model that learned nothing gets to the best there is; None where nobody knows it."""
    measured: Metric | None = None
    """What the metric is, where a record or its name says so."""
    registered: tuple[Verdict, ...] = ()
    """What the runs' studies say of their own questions, where this is another."""
    unlike: list[UnlikeConditions] = field(default_factory=list)
    """Conditions other than what makes the arms in which their runs differ."""

    @property
    def chance(self) -> float | None:
        """Return what a model that learned nothing gets."""
        return None if self.scale is None else self.scale.chance

    @property
    def best(self) -> float | None:
        """Return the best there is."""
        return None if self.scale is None else self.scale.best

    @property
    def told(self) -> str:
        """The metric in words."""
        name = self.metric.replace("_", " ")
        return name if self.stage in ("test", GIVEN, TASKS) else f"{name} on {self.stage.replace('_', ' ')}"

    def verdict_on(self, arm: str) -> Verdict | None:
        """The one against the baseline."""
        against = (verdict for verdict in self.verdicts if verdict.baseline == self.baseline)
        return next((verdict for verdict in against if verdict.arm == arm), None)


def contest_of(records: Iterable[RunRecord], terms: Terms, curves: Mapping[str, Curve] | None = None) -> Contest:
    """What a study registered is judged by its own verdicts. Nothing was registered for records that are merely found,
    or for another question about a study's runs: every such verdict is exploratory.

    `curves` of runs without a folder of their own, by run id, tell how soon they solved their task.
    """
    given = list(records)
    counted = [record for record in given if counts(record)]
    answers = answers_of(counted)
    terms = _as_registered(terms, list(answers.values()))
    remarks = [told for told in (set_apart(given),) if told]
    with_outcome = [record for record in counted if record.status in COUNTED]
    remarks += refuse_unlike(with_outcome, allowed=terms.allowed, metric=terms.metric)
    _check_baseline(sorted({arm_of(record) for record in counted}), terms.against)
    everything, counted = counted, _measurable(counted, list(answers.values()), terms.metric)
    lines = [line_of(record, metric=terms.metric) for record in counted]
    stage, metric = _one_metric(lines)
    refuse_other_questions(counted, stage)
    remarks += _taken_for(lines, stage)
    arms = arms_of([(_staged(r, stage), line.value) for r, line in zip(counted, lines, strict=True)], stage)
    arms.sort(key=lambda arm: arm.name != terms.against)
    check = budget_check(arms, terms.against)
    if terms.budget:
        refuse_unequal(check, terms.budget)
    direction = terms.direction or _direction(counted, metric)
    staged = [_staged(record, stage) for record in counted]
    measured, scale = metric_in(staged, metric), scale_in(staged, stage, metric, direction=direction)
    contest = Contest(metric, stage, direction, terms.against, arms, [], check, terms.margin, remarks, scale, measured)
    other = not_registered(answers, everything, terms, f"{stage}/{metric}")
    known = [answer for answer in answers.values() if answer is not None]
    if other == "":
        return _registered(contest, known[0])
    remarks += [*_guessed(counted, metric, direction, terms), *leaks_in(with_outcome)]
    contest = replace(contest, remarks=remarks)
    found = _explored(contest, counted, terms, curves, other)
    return replace(found, registered=tuple(verdict for answer in known for verdict in answer.verdicts))


def _explored(
    contest: Contest,
    counted: Sequence[RunRecord],
    terms: Terms,
    curves: Mapping[str, Curve] | None,
    departure: str | None,
) -> Contest:
    """The verdicts on runs for which this question was not registered."""
    arms, metric = contest.arms, f"{contest.stage}/{contest.metric}"
    runs = [(arm.name, seed_of(record), record) for arm in arms for record in arm.records]
    unit = unit_under(terms.budget or _one_budget(counted))
    times = TimesToSolve(runs, metric, contest.direction, curves, unit)
    read = Registration(
        contest.direction, measured=contest.measured, scale=contest.scale, solved_at=terms.solved_at, time_unit=unit
    )
    verdicts, why = _judged(contest, read, times, departure)
    verdicts = with_rows(verdicts, [record for arm in arms for record in arm.records], metric)
    unlike = unlike_conditions({arm.name: arm.records for arm in arms}, [(v.arm, v.baseline) for v in verdicts])
    told = [*contest.remarks, *sentences_on(unlike), *_alone(arms), *why, *_coarse(verdicts, times)]
    return replace(contest, verdicts=verdicts, remarks=told, unlike=unlike)


def _as_registered(terms: Terms, answers: Sequence[RegisteredAnswer | None]) -> Terms:
    """The question of the one study that the runs are of, unless another is asked."""
    answer = answers[0] if len(answers) == 1 else None
    if answer is None:
        return terms
    allowed = (*terms.allowed, *(name for name in answer.allow_unlike if name not in terms.allowed))
    return replace(terms, metric=terms.metric or answer.metric, allowed=allowed)


def _measurable(
    records: Sequence[RunRecord], answers: Sequence[RegisteredAnswer | None], metric: str | None
) -> list[RunRecord]:
    """Arms that cannot be measured as their study asks have no verdict there, and its remarks say why."""
    if metric not in [answer.metric for answer in answers if answer is not None]:
        return list(records)
    stage = str(metric).partition("/")[0]
    return [record for record in records if stage not in record.cannot]


def _registered(contest: Contest, answer: RegisteredAnswer) -> Contest:
    """All contrasts of the study, those among its other arms too."""
    remarks = [*contest.remarks, *(remark for remark in answer.remarks if remark not in contest.remarks)]
    return replace(
        contest,
        direction=answer.direction,
        margin=answer.margin,
        verdicts=list(answer.verdicts),
        remarks=[*remarks, *_alone(contest.arms)],
        unlike=list(answer.unlike),
    )


def _guessed(records: Sequence[RunRecord], metric: str, direction: Direction, terms: Terms) -> list[str]:
    """Return what a name was taken to mean where another program made the runs, and nobody said it."""
    strangers = [r for r in records if metric not in r.scales and r.comparability == Comparability()]
    if terms.direction is not None or not strangers:
        return []
    way = "less" if direction == "min" else "more"
    return [f"{way} of {metric} is taken to be better, as its name tells: --direction says otherwise"]


def _check_baseline(names: Sequence[str], against: str) -> None:
    if against not in names:
        raise NotComparable(f"--against {against}: no run has this name; choose among {', '.join(names)}")
    if len(names) < 2:
        raise NotComparable(f"all runs are named {against}: runs of another name are needed to compare it with")


def _judged(
    contest: Contest, read: Registration, times: Times, departure: str | None
) -> tuple[list[Verdict], list[str]]:
    """Paired wherever the seeds allow it, one way for the whole family."""
    base, *others = contest.arms
    apart = [arm.name for arm in others if not _pairs(arm, base)]
    registration = replace(read, metric=contest.told, margin=contest.margin, paired=not apart)
    contrasts = [Contrast(arm.name, base.name, departure) for arm in others]
    verdicts = verdicts_of({arm.name: arm.outcomes for arm in contest.arms}, contrasts, registration, times)
    if not apart:
        return verdicts, [told for arm in others for told in _unpaired(arm, base)]
    return verdicts, [
        f"nothing is paired: {', '.join(apart)} and {base.name} share fewer than two seeds, or a run without a partner "
        "diverged"
    ]


def _pairs(arm: Arm, base: Arm) -> bool:
    """Where either has a single seed, no test is possible in any case; a divergence is never left out."""
    shared = arm.outcomes.keys() & base.outcomes.keys()
    lost = any(value is None and seed not in shared for a in (arm, base) for seed, value in a.outcomes.items())
    return not lost and len(shared) >= min(2, len(arm.outcomes), len(base.outcomes))


def _unpaired(arm: Arm, base: Arm) -> list[str]:
    alone = sorted(arm.outcomes.keys() ^ base.outcomes.keys())
    if not alone:
        return []
    told = f"seed{'' if len(alone) == 1 else 's'} {', '.join(map(str, alone))}"
    return [f"{told} of {arm.name} or {base.name} without a partner, and left out of their difference"]


def _coarse(verdicts: Sequence[Verdict], times: TimesToSolve) -> list[str]:
    """Who is measured less often seems to come later."""
    timed = {
        name for verdict in verdicts if verdict.method == "time to solve" for name in (verdict.arm, verdict.baseline)
    }
    spacings = times.spacings(sorted(timed))
    if not spacings or max(spacings.values()) < _FINER * min(spacings.values()):
        return []
    unit = verdicts[0].time_unit
    told = ", ".join(f"{arm} after {first:.3g} {unit}" for arm, first in spacings.items())
    return [f"times to solve are no finer than runs were measured, which differs: first {told}"]


def _one_budget(records: Sequence[RunRecord]) -> str | None:
    """What was held equal in all of them."""
    kinds = {record.budget.get("kind") for record in records}
    return next(iter(kinds)) if len(kinds) == 1 else None


def _alone(arms: Sequence[Arm]) -> list[str]:
    silent = [arm.name for arm in arms if not arm.outcomes]
    return [f"no run of {', '.join(silent)} came to an end"] if silent else []


def _one_metric(lines: Sequence[Line]) -> tuple[str, str]:
    found = {(str(line.stage), line.metric) for line in lines if line.status == "finished" and line.metric}
    if not found:
        raise NotComparable("no run has finished with a result that was asked for: there is nothing to compare")
    known = {(stage, metric) for stage, metric in found if stage != GIVEN} or found
    if len(known) > 1 or len({metric for _, metric in found}) > 1:
        told = ", ".join(f"{metric} on {stage}" for stage, metric in sorted(found))
        raise NotComparable(
            f"the runs report different results ({told}): choose one with --metric, measured on one split"
        )
    return next(iter(known))


def _taken_for(lines: Sequence[Line], stage: str) -> list[str]:
    strangers = sorted({line.arm for line in lines if line.stage == GIVEN})
    if stage == GIVEN or not strangers:
        return []
    return [f"the results of {', '.join(strangers)} do not say on which split, and are taken for those on {stage}"]


def _staged(record: RunRecord, stage: str) -> RunRecord:
    """Results of another program count in the stage that they are compared in."""
    return (
        replace(record, metrics={stage: record.metrics[GIVEN]}, path=record.path) if GIVEN in record.metrics else record
    )


def _direction(records: Sequence[RunRecord], metric: str) -> Direction:
    """As the runs were selected, where they were selected by it, else as the metric says."""
    selected = [record.selection.direction for record in records if record.selection.metric == metric]
    measured = metric_in(records, metric)
    found = selected[0] if selected else None if measured is None else measured.direction
    if found is None:
        raise NotComparable(
            f"whether more or less of {metric} is better, its name does not tell: --direction min or max"
        )
    return found
