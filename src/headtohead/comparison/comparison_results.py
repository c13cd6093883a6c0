"""All that a comparison found, whoever requested it: `h2h study` and `h2h compare` fill it, the report renders it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from headtohead.comparison.analyses.ability_scores import AbilityScores
from headtohead.comparison.analyses.across_tasks import TaskAggregate
from headtohead.comparison.analyses.budget_ranking import BudgetRanking
from headtohead.comparison.analyses.effects import Effects
from headtohead.comparison.analyses.length_curves import LengthCurves, lengths_of
from headtohead.comparison.analyses.scaling_fits import ScalingFits
from headtohead.comparison.analyses.tuning_summary import TuningSummary
from headtohead.comparison.arms import has_no_number
from headtohead.comparison.comparability import seed_of
from headtohead.comparison.comparison import Comparison
from headtohead.comparison.contrasts import ALPHA, Verdict
from headtohead.comparison.metric_scales import chance_in, metric_in
from headtohead.comparison.task_comparison import TaskComparison
from headtohead.metrics import Metric
from headtohead.records.metrics_file import Curve
from headtohead.records.record import ENDED, RunRecord, to_json


@dataclass(frozen=True)
class RunResult:
    """One run that was requested, done or not."""

    arm: str
    seed: int
    """The seed by which arms are paired."""
    status: str
    """That of the record, or missing; diverged, where it finished without a finite result."""
    reason: str | None = None
    value: float | None = None
    """The value of the metric; None unless it finished."""
    command: str | None = None
    """Makes this run again."""
    record: RunRecord | None = None

    @property
    def done(self) -> bool:
        return self.status in ENDED


@dataclass(frozen=True)
class ArmResult:
    """One contestant with its runs: no trials of a tuning, no points at a share of the budget."""

    name: str
    runs: tuple[RunResult, ...]
    """The runs by seed."""
    overrides: tuple[str, ...] = ()
    """The overrides that set it apart."""
    description: str | None = None

    @property
    def records(self) -> list[RunRecord]:
        """Return the records of the arm's finished runs."""
        return [run.record for run in self.runs if run.record is not None and run.status == "finished"]

    @property
    def values(self) -> list[float]:
        return [run.value for run in self.runs if run.value is not None]

    @property
    def failures(self) -> list[RunResult]:
        return [run for run in self.runs if run.done and run.status != "finished"]


@dataclass(frozen=True)
class ComparisonResults:
    """Words of the design, runs and verdicts; then parts that only some comparisons have, None where absent."""

    title: str
    metric: str
    """The metric as records have it: test/loss, test_4x/accuracy."""
    direction: Literal["min", "max"]
    baseline: str
    arms: tuple[ArmResult, ...]
    """The baseline among them."""
    verdicts: tuple[Verdict, ...]
    question: str | None = None
    hypothesis: str | None = None
    tuning_words: str | None = None
    """The amount of tuning that the numbers received, in words."""
    margin: float | None = None
    alpha: float = ALPHA
    budget: str | None = None
    """The quantity that was held equal: equal_tokens."""
    command: str | None = None
    """Makes all of it again."""
    resumes: bool = False
    """The command also makes runs that are missing."""
    remarks: tuple[str, ...] = ()
    """The obstacles between the runs and a verdict, and whatever is not as expected."""
    history: tuple[str, ...] = ()
    """The registrations of the question, where there are several, and what was rewritten since."""
    matching: Mapping[str, object] | None = None
    tuning: TuningSummary | None = None
    effects: Effects | None = None
    left_out: tuple[tuple[str, str], ...] = ()
    """Combinations that are impossible, each with its reason."""
    scaling: ScalingFits | None = None
    ranking: BudgetRanking | None = None
    lengths: LengthCurves | None = None
    """The results on longer rows, where runs were tested on them."""
    tasks: TaskAggregate | None = None
    abilities: AbilityScores | None = None
    """The scores of contestants by data or task, where a design crosses them."""
    curves: Mapping[str, Curve] = field(default_factory=dict)
    """The curves of the metric by run id, where runs of another program came with them instead of a folder."""

    @property
    def measured(self) -> Metric | str:
        """Return what the metric is, as records say it, else its name."""
        return metric_in(self.records, self.metric.partition("/")[2]) or self.metric

    @property
    def records(self) -> list[RunRecord]:
        """Return the records of all runs that have one."""
        return [run.record for run in self.runs if run.record is not None]

    def chance(self, metric: str | None = None) -> float | None:
        """Return the score of a model that learned nothing, of the metric that is judged or of another stage's."""
        stage, _, name = (metric or self.metric).partition("/")
        return chance_in(self.records, stage, name)

    @property
    def runs(self) -> list[RunResult]:
        return [run for arm in self.arms for run in arm.runs]

    def arm(self, name: str) -> ArmResult:
        return next(arm for arm in self.arms if arm.name == name)

    def verdict_on(self, arm: str) -> Verdict | None:
        """Return the verdict on the arm against the baseline."""
        return next((v for v in self.verdicts if v.arm == arm and v.baseline == self.baseline), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the results as data for JSON; records are as in their own files, with secrets masked."""
        return {**asdict(replace(self, arms=())), "arms": [_arm_data(arm) for arm in self.arms]}


@dataclass(frozen=True)
class ArmDescriptions:
    """Arm descriptions say what is known of arms and runs beside their records."""

    order: Sequence[str] = ()
    """The order of arms; those not named come after, by name."""
    overrides: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The overrides by arm."""
    descriptions: Mapping[str, str] = field(default_factory=dict)
    """The descriptions by arm."""
    commands: Mapping[str, str] = field(default_factory=dict)
    """The commands by run id."""


def results_of(
    records: Iterable[RunRecord],
    verdicts: Iterable[Verdict],
    *,
    title: str,
    metric: str,
    direction: Literal["min", "max"],
    baseline: str,
    alpha: float = ALPHA,
    words: ArmDescriptions | None = None,
    undone: Iterable[RunResult] = (),
) -> ComparisonResults:
    """Records grouped by arm; words of a design and optional parts are added with dataclasses.replace."""
    known = words or ArmDescriptions()
    runs = [_run_result(record, metric, known) for record in records]
    listed = {(run.arm, run.seed) for run in runs}
    runs += [run for run in undone if (run.arm, run.seed) not in listed]
    names = [*known.order, *sorted({run.arm for run in runs} - set(known.order))]
    arms = [
        ArmResult(
            name,
            tuple(sorted((run for run in runs if run.arm == name), key=lambda run: run.seed)),
            tuple(known.overrides.get(name, ())),
            known.descriptions.get(name),
        )
        for name in names
    ]
    result = ComparisonResults(title, metric, direction, baseline, tuple(arms), tuple(verdicts), alpha=alpha)
    name = metric.partition("/")[2]
    return replace(result, lengths=lengths_of({arm.name: arm.records for arm in arms}, name, result.alpha))


def value_of(record: RunRecord, metric: str) -> float | None:
    """Return the value of a finished run, if it is a number."""
    stage, _, name = metric.partition("/")
    value = record.metrics.get(stage, {}).get(name)
    return value if record.status == "finished" and value is not None and math.isfinite(value) else None


def _run_result(record: RunRecord, metric: str, words: ArmDescriptions) -> RunResult:
    value, command = value_of(record, metric), words.commands.get(record.id)
    ended = (record.status, record.reason)
    if has_no_number(record, metric):
        ended = ("diverged", f"it finished, and its {metric} is not finite")
    return RunResult(record.arm, seed_of(record), *ended, value, command, record)


def _arm_data(arm: ArmResult) -> dict[str, Any]:
    runs = [
        {
            **asdict(replace(run, record=None)),
            "record": None if run.record is None else json.loads(to_json(run.record)),
        }
        for run in arm.runs
    ]
    return {**asdict(replace(arm, runs=())), "runs": runs}


def results_from(
    comparison: Comparison | TaskComparison,
    *,
    title: str,
    command: str | None = None,
    curves: Mapping[str, Curve] | None = None,
) -> ComparisonResults:
    """All runs of all arms; of several tasks, one for each seed that stands for all of them."""
    whole = comparison.overall if isinstance(comparison, TaskComparison) else comparison
    result = results_of(
        [record for arm in whole.arms for record in arm.records],
        whole.verdicts,
        title=title,
        metric=f"{whole.stage}/{whole.metric}",
        direction=whole.direction,
        baseline=whole.baseline,
        alpha=whole.alpha,
        words=ArmDescriptions(order=[arm.name for arm in whole.arms]),
    )
    return replace(
        result,
        margin=whole.margin,
        command=command,
        remarks=(*(f"registered: {v.sentence}" for v in whole.registered), whole.budget.sentence, *whole.remarks),
        tasks=comparison.aggregate if isinstance(comparison, TaskComparison) else None,
        curves=curves or {},
    )
