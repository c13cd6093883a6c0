"""Estimate what a study will cost before it runs: its arms by the ledger, its time by finished runs or a short
calibration."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import zip_longest
from math import log
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from headtohead.config.errors import ConfigurationError
from headtohead.config.rules.config_view import ConfigView
from headtohead.config.run_config import RunConfig
from headtohead.estimates.run_cost import retained_bytes, temporary_bytes
from headtohead.execution.run_spec import RunSpec
from headtohead.execution.single_run import record_of
from headtohead.records.environment import target_names
from headtohead.records.record import ENDED, RunRecord
from headtohead.studies.definition.study import used
from headtohead.studies.planning.study_plan import StudyPlan
from headtohead.studies.planning.study_progress import fewest_rounds

if TYPE_CHECKING:
    from headtohead.estimates.run_cost import CostedRun, RunCosts

Records = Mapping[RunSpec, RunRecord | None]


@dataclass(frozen=True)
class ArmEstimate:
    """One arm of the plan; FLOPs, tokens and seconds are those of one whole run, or of one fit."""

    arm: str
    runs: int
    """Those not known yet among them."""
    trials: int
    """The trials of the tuning among these."""
    missing: int
    missing_share: float
    """The share that is missing, as a number of whole runs: trials and points on the budget axis are shorter."""
    parameters: float
    state: float
    tokens: float
    flops: float | None
    """Return None where rows are learned from at once, nobody knows how often."""
    seconds: float | None
    """Return None where nothing could tell."""
    source: Literal["finished runs", "calibration", "its FLOPs"] | None
    trained_by_steps: bool
    """Whether it trains by steps; otherwise rows are learned from at once."""
    fewest_missing: int
    """Runs that are missing even where all contrasts are decided as early as they can be."""
    bytes_kept: float
    """The bytes on disk of one whole run."""
    bytes_missing: float
    """The bytes of all that is missing."""
    bytes_passing: float
    """The checkpoints of one run while it trains."""


@dataclass(frozen=True)
class CostEstimate:
    """All arms, and what is left to do."""

    arms: tuple[ArmEstimate, ...]

    @property
    def runs(self) -> int:
        return sum(arm.runs for arm in self.arms)

    @property
    def trials(self) -> int:
        return sum(arm.trials for arm in self.arms)

    @property
    def missing(self) -> int:
        return sum(arm.missing for arm in self.arms)

    @property
    def fewest_missing(self) -> int:
        """Return the same number where the number of seeds was fixed."""
        return sum(arm.fewest_missing for arm in self.arms)

    @property
    def flops(self) -> float:
        return sum(arm.missing_share * (arm.flops or 0.0) for arm in self.arms)

    @property
    def seconds(self) -> float:
        """One run after another."""
        return sum(arm.missing_share * (arm.seconds or 0.0) for arm in self.arms)

    @property
    def fewest_seconds(self) -> float:
        """One run after another, where all contrasts are decided as early as they can be."""
        return sum(_part(arm) * (arm.seconds or 0.0) for arm in self.arms)

    @property
    def disk_bytes(self) -> float:
        """That will be kept, of the runs that are missing."""
        return sum(arm.bytes_missing for arm in self.arms)

    @property
    def passing_bytes(self) -> float:
        """More while one run trains."""
        return max((arm.bytes_passing for arm in self.arms if arm.missing), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        sums = ("runs", "trials", "missing", "fewest_missing", "flops", "seconds", "fewest_seconds")
        whole = (*sums, "disk_bytes", "passing_bytes")
        return {"arms": [asdict(arm) for arm in self.arms], **{name: getattr(self, name) for name in whole}}


def _part(arm: ArmEstimate) -> float:
    return arm.missing_share * arm.fewest_missing / arm.missing if arm.missing else 0.0


Timer = Callable[[Mapping[str, Mapping[str, Any]]], Mapping[str, float]]
"""A function from the arms' configurations to seconds of training of one run."""


@dataclass(frozen=True)
class _Left:
    """This is the remaining work of an arm."""

    runs: int
    whole: float
    """The same as a number of whole runs."""
    bytes: float


def estimate(plan: StudyPlan, *, threads: int | None = None, timer: Timer | None = None) -> CostEstimate:
    """Prepares the data where needed."""
    from headtohead.estimates.run_cost import RunCosts

    costs = RunCosts()
    costed = {arm: _costed(plan, arm, costs) for arm in (*used(plan.study), *plan.study.arms)}
    records = {run: record_of(plan.run_folder(run)) for run in plan.runs}
    data = {arm: _of_finished(plan, arm, records) for arm in costed}
    left = {arm: _left(plan, arm, records, run.figure("parameters")) for arm, run in costed.items()}
    timed = {arm: seconds for arm, seconds in _of_matching(plan).items() if data[arm] is None}
    untimed = [arm for arm in costed if left[arm].runs and data[arm] is None and arm not in timed]
    unknown = {arm: plan.drafts[arm] for arm in untimed if ConfigView(plan.drafts[arm]).trained_by_steps}
    flops = {arm: costed[arm].figures()["training_flops"] for arm in unknown}
    kinds = {arm: tuple(target_names(draft["model"])) for arm, draft in unknown.items()}
    in_order = {arm: unknown[arm] for arm in _one_of_each_kind_first(flops, kinds)}
    timed |= (timer or (lambda configs: _calibrated(configs, threads)))(in_order) if in_order else {}
    inferred = _by_flops(flops, timed, kinds)

    fewest = fewest_rounds(plan.study)

    def source_of(arm: str) -> Literal["finished runs", "calibration", "its FLOPs"] | None:
        if arm in timed or arm in inferred:
            return "calibration" if arm in timed else "its FLOPs"
        return None if data[arm] is None else "finished runs"

    def of_arm(arm: str, run: CostedRun) -> ArmEstimate:
        parameters, draft = run.figure("parameters"), plan.drafts[arm]
        trials = plan.num_trials(arm)
        return ArmEstimate(
            arm=arm,
            runs=trials + plan.num_runs_of(arm),
            trials=trials,
            missing=left[arm].runs,
            missing_share=left[arm].whole,
            parameters=parameters,
            state=run.figure("state_elements"),
            tokens=run.figure("tokens"),
            flops=run.figures().get("training_flops"),
            seconds=timed.get(arm, inferred.get(arm, data[arm])),
            source=source_of(arm),
            trained_by_steps=ConfigView(draft).trained_by_steps,
            fewest_missing=max(0, left[arm].runs - plan.num_runs_of(arm) + plan.num_runs_of(arm, fewest)),
            bytes_kept=retained_bytes(draft, parameters),
            bytes_missing=left[arm].bytes,
            bytes_passing=temporary_bytes(draft, parameters),
        )

    return CostEstimate(tuple(of_arm(arm, run) for arm, run in costed.items()))


def _ends_first(names: Sequence[str]) -> Iterator[str]:
    """Return the first, the last, the one in the middle, those in the middle of the halves ...: whenever one stops,
    what was reached is spread over all."""
    yield from dict.fromkeys((*names[:1], *names[-1:]))
    spans = deque([(0, len(names) - 1)])
    while spans:
        low, high = spans.popleft()
        if high - low > 1:
            yield names[middle := (low + high) // 2]
            spans += ((low, middle), (middle, high))


def _one_of_each_kind_first(flops: Mapping[str, float], kinds: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the arms in the order in which they are timed: one of each kind of model, which are made of the same
    classes, before a second one of any, since a FLOP of one kind may take ten times as long as one of another."""
    of_kind: dict[tuple[str, ...], list[str]] = {}
    for arm in _ends_first(sorted(flops, key=lambda arm: flops[arm])):
        of_kind.setdefault(kinds[arm], []).append(arm)
    return [arm for turn in zip_longest(*of_kind.values()) for arm in turn if arm is not None]


def _by_flops(
    flops: Mapping[str, float], timed: Mapping[str, float], kinds: Mapping[str, tuple[str, ...]]
) -> dict[str, float]:
    """Return the seconds of the arms that were not timed, at the FLOPs per second of the timed one nearest in FLOPs: of
    the same kind of model, where one was timed."""
    speeds = {arm: seconds / flops[arm] for arm, seconds in timed.items() if flops.get(arm)}

    def speed_near(arm: str) -> float:
        alike = [other for other in speeds if kinds[other] == kinds[arm]] or list(speeds)
        return speeds[min(alike, key=lambda other: abs(log(flops[other] / flops[arm])))]

    return {arm: number * speed_near(arm) for arm, number in flops.items() if speeds and arm not in timed and number}


def _left(plan: StudyPlan, arm: str, records: Records, parameters: float) -> _Left:
    """Runs that are known and not done, and those that follow from them."""
    draft = plan.drafts[arm]
    whole = _whole(draft)
    missing = [run for run in plan.of_arm(arm) if not _is_done(records[run])]
    steps = [RunConfig(run.config).max_steps for run in missing]
    disk_bytes = [retained_bytes(run.config, parameters) for run in missing]
    known = [run for run in plan.of_arm(arm) if run.trial is not None]
    if later := plan.num_trials(arm) - len(known):
        trial = known[0].config if known else _trial_of(plan, arm)
        steps += [RunConfig(trial).max_steps] * later
        disk_bytes += [retained_bytes(trial, parameters)] * later
    awaited = plan.num_runs_of(arm) - (len(plan.of_arm(arm)) - len(known))
    if awaited:
        steps += [round(fmean(plan.study.shares) * whole)] * awaited
        disk_bytes += [retained_bytes(draft, parameters)] * awaited
    return _Left(len(steps), sum(_share(each, whole) for each in steps), sum(disk_bytes))


def whole_runs(plan: StudyPlan, arm: str) -> float:
    """Return the length of all runs of an arm or a foundation, whether or not they are done, as a number of whole
    runs."""
    return _left(plan, arm, dict.fromkeys(plan.runs), 0.0).whole


def _whole(draft: Mapping[str, object]) -> int:
    """Steps of a whole run; 0 where there are none, whatever is set."""
    return RunConfig(draft).max_steps if ConfigView(draft).trained_by_steps else 0


def _share(steps: int, whole: int) -> float:
    """Return the share of a whole run; a run without steps is whole."""
    return steps / whole if whole else 1.0


def _trial_of(plan: StudyPlan, arm: str) -> dict[str, Any]:
    """Return the trial's configuration as far as costs need it, before the foundation that trials start from exists."""
    draft = plan.drafts[arm]
    steps = plan.tunings[arm].tuning.steps or RunConfig(draft).max_steps
    return {**draft, "trainer": {**RunConfig(draft).trainer, "max_steps": steps, "keep_checkpoints": "none"}}


def _costed(plan: StudyPlan, arm: str, costs: RunCosts) -> CostedRun:
    try:
        return costs.of(plan.drafts[arm])
    except ConfigurationError as error:
        raise ConfigurationError(f"study {plan.study.name}, arm {arm}: {error}") from None


def _is_done(record: RunRecord | None) -> bool:
    return record is not None and record.status in ENDED


def _of_finished(plan: StudyPlan, arm: str, records: Records) -> float | None:
    """A whole run from start to end, all included; a run that was interrupted in between does not tell."""
    whole = _whole(plan.drafts[arm])
    spans: dict[bool, list[float]] = {True: [], False: []}
    for run in plan.of_arm(arm):
        record = records[run]
        if record is None or record.status != "finished" or record.timing.starts != 1:
            continue
        if (span := _span(record)) is not None:
            spans[run.counts].append(span / _share(RunConfig(run.config).max_steps, whole))
    known = spans[True] or spans[False]
    return fmean(known) if known else None


def _span(record: RunRecord) -> float | None:
    """Return None where the record, which somebody else may have written, does not tell."""
    started, finished = record.timing.started, record.timing.finished
    if started is None or finished is None:
        return None
    try:
        return (datetime.fromisoformat(finished) - datetime.fromisoformat(started)).total_seconds()
    except TypeError:  # one with a zone, the other without
        return None


def _of_matching(plan: StudyPlan) -> dict[str, float]:
    """Return the measured times if the budget is time."""
    arms = () if plan.matching is None else plan.matching.arms
    steps = {arm.name: RunConfig(plan.drafts[arm.name]).max_steps for arm in arms}
    return {arm.name: arm.timing.step_seconds * steps[arm.name] for arm in arms if arm.timing is not None}


def _calibrated(configs: Mapping[str, Mapping[str, object]], threads: int | None) -> dict[str, float]:
    """Training alone: start, validation and test come on top."""
    from headtohead.estimates.step_times import step_seconds_by_shape

    alike = {
        arm: {**config, "trainer": _with_threads(RunConfig(config).trainer, threads)} for arm, config in configs.items()
    }
    try:
        timed = step_seconds_by_shape(alike)
    except ConfigurationError:
        return {}  # arms of unlike threads are not timed in one process; a plan without times is still a plan
    return {arm: seconds * RunConfig(configs[arm]).max_steps for arm, seconds in timed.items()}


def _with_threads(trainer: Mapping[str, object], threads: int | None) -> dict[str, Any]:
    return {**trainer, "threads": trainer["threads"] or threads}
