"""All that a comparison found, whoever asked for it: `h2h study` and `h2h compare` fill it, the report renders it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from headtohead.comparing.across_tasks import TaskAggregate
from headtohead.comparing.arms import arm_of
from headtohead.comparing.comparability import seed_of
from headtohead.comparing.effects import Effects
from headtohead.comparing.lengths import LengthCurves, lengths_of
from headtohead.comparing.ranking import Ranking
from headtohead.comparing.scales import chance_in, metric_in
from headtohead.comparing.scaling_fits import ScalingFits
from headtohead.comparing.tuning import TuningSummary
from headtohead.comparing.verdict import Verdict
from headtohead.metrics import Metric
from headtohead.tracking.metrics import Curve
from headtohead.tracking.record import RunRecord, to_json

ENDED = ("finished", "diverged", "out_of_memory", "failed")
"""A run of another status is not done."""


@dataclass(frozen=True)
class Found:
    """One run that was asked for, done or not."""

    arm: str
    seed: int
    """By which arms are paired."""
    status: str
    """That of the record, or missing."""
    reason: str | None = None
    value: float | None = None
    """Of the metric; None unless it finished."""
    command: str | None = None
    """Makes this run again."""
    record: RunRecord | None = None

    @property
    def done(self) -> bool:
        return self.status in ENDED


@dataclass(frozen=True)
class FoundArm:
    """One contestant with its runs: no trials of a tuning, no points at a share of the budget."""

    name: str
    runs: tuple[Found, ...]
    """By seed."""
    overrides: tuple[str, ...] = ()
    """What sets it apart."""
    description: str | None = None

    @property
    def records(self) -> list[RunRecord]:
        """Of its finished runs."""
        return [run.record for run in self.runs if run.record is not None and run.status == "finished"]

    @property
    def values(self) -> list[float]:
        return [run.value for run in self.runs if run.value is not None]

    @property
    def failures(self) -> list[Found]:
        return [run for run in self.runs if run.done and run.status != "finished"]


@dataclass(frozen=True)
class Findings:
    """Words of the design, runs and verdicts; then parts that only some comparisons have, None where absent."""

    title: str
    metric: str
    """As records have it: test/loss, test_4x/accuracy."""
    direction: Literal["min", "max"]
    baseline: str
    arms: tuple[FoundArm, ...]
    """The baseline among them."""
    verdicts: tuple[Verdict, ...]
    question: str | None = None
    hypothesis: str | None = None
    tuning_words: str | None = None
    """How much tuning the numbers received."""
    margin: float | None = None
    alpha: float = 0.05
    budget: str | None = None
    """What was held equal: equal_tokens."""
    command: str | None = None
    """Makes all of it again."""
    resumes: bool = False
    """The command also makes runs that are missing."""
    remarks: tuple[str, ...] = ()
    """What stands between the runs and a verdict, and what is not as expected."""
    history: tuple[str, ...] = ()
    """The registrations of the question, where there are several, and what was rewritten since."""
    matching: Mapping[str, Any] | None = None
    tuning: TuningSummary | None = None
    effects: Effects | None = None
    left_out: tuple[tuple[str, str], ...] = ()
    """Combinations that are impossible, each with its reason."""
    scaling: ScalingFits | None = None
    ranking: Ranking | None = None
    lengths: LengthCurves | None = None
    """Where runs were tested on longer rows too."""
    tasks: TaskAggregate | None = None
    curves: Mapping[str, Curve] = field(default_factory=dict)
    """Of the metric, by run id, where runs of another program came with them instead of a folder."""

    @property
    def measured(self) -> Metric | str:
        """Return what the metric is, as records say it, else its name."""
        return metric_in(self.records, self.metric.partition("/")[2]) or self.metric

    @property
    def records(self) -> list[RunRecord]:
        """Return the records of all runs that have one."""
        return [run.record for run in self.runs if run.record is not None]

    def chance(self, metric: str | None = None) -> float | None:
        """Return what a model that learned nothing gets, of the metric that is judged or of another stage's."""
        stage, _, name = (metric or self.metric).partition("/")
        return chance_in(self.records, stage, name)

    @property
    def runs(self) -> list[Found]:
        return [run for arm in self.arms for run in arm.runs]

    def arm(self, name: str) -> FoundArm:
        return next(arm for arm in self.arms if arm.name == name)

    def verdict_on(self, arm: str) -> Verdict | None:
        """Against the baseline."""
        return next((v for v in self.verdicts if v.arm == arm and v.baseline == self.baseline), None)

    def to_dict(self) -> dict[str, Any]:
        """For JSON; records as their own files have them, secrets masked."""
        return {**asdict(replace(self, arms=())), "arms": [_arm_data(arm) for arm in self.arms]}


@dataclass(frozen=True)
class Words:
    """What is known of arms and runs beside their records."""

    order: Sequence[str] = ()
    """Of arms; those not named come after, by name."""
    overrides: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By arm."""
    descriptions: Mapping[str, str] = field(default_factory=dict)
    """By arm."""
    commands: Mapping[str, str] = field(default_factory=dict)
    """By run id."""


def findings_of(
    records: Iterable[RunRecord],
    verdicts: Iterable[Verdict],
    *,
    title: str,
    metric: str,
    direction: Literal["min", "max"],
    baseline: str,
    words: Words | None = None,
    undone: Iterable[Found] = (),
) -> Findings:
    """Records grouped by arm; words of a design and optional parts are added with dataclasses.replace."""
    known = words or Words()
    runs = [_found(record, metric, known) for record in records]
    listed = {(run.arm, run.seed) for run in runs}
    runs += [run for run in undone if (run.arm, run.seed) not in listed]
    names = [*known.order, *sorted({run.arm for run in runs} - set(known.order))]
    arms = [
        FoundArm(
            name,
            tuple(sorted((run for run in runs if run.arm == name), key=lambda run: run.seed)),
            tuple(known.overrides.get(name, ())),
            known.descriptions.get(name),
        )
        for name in names
    ]
    found = Findings(title, metric, direction, baseline, tuple(arms), tuple(verdicts))
    name = metric.partition("/")[2]
    return replace(found, lengths=lengths_of({arm.name: arm.records for arm in arms}, name, found.alpha))


def value_of(record: RunRecord, metric: str) -> float | None:
    """Of a finished run, where it is a number."""
    stage, _, name = metric.partition("/")
    value = record.metrics.get(stage, {}).get(name)
    return value if record.status == "finished" and value is not None and math.isfinite(value) else None


def _found(record: RunRecord, metric: str, words: Words) -> Found:
    value, command = value_of(record, metric), words.commands.get(record.id)
    return Found(arm_of(record), seed_of(record), record.status, record.reason, value, command, record)


def _arm_data(arm: FoundArm) -> dict[str, Any]:
    runs = [
        {
            **asdict(replace(run, record=None)),
            "record": None if run.record is None else json.loads(to_json(run.record)),
        }
        for run in arm.runs
    ]
    return {**asdict(replace(arm, runs=())), "runs": runs}
