"""What a study will cost before it runs: its arms by the ledger, its time by finished runs or a short calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from headtohead.building.errors import ConfigurationError
from headtohead.building.view import View
from headtohead.studying.cells import Cell
from headtohead.studying.foundations import used
from headtohead.studying.planning import Plan
from headtohead.studying.running import DONE, record_of
from headtohead.studying.storing import kept_bytes, passing_bytes
from headtohead.tracking.record import RunRecord

if TYPE_CHECKING:
    from headtohead.studying.matching.costing import CostedRun

_ROUNDS, _TURN_STEPS = 3, 3
Records = Mapping[Cell, RunRecord | None]


@dataclass(frozen=True)
class ArmEstimate:
    """One arm of the plan; FLOPs, tokens and seconds are those of one whole run, or of one fit."""

    arm: str
    runs: int
    """Those not known yet among them."""
    trials: int
    """Of these, the trials of the tuning."""
    missing: int
    missing_share: float
    """What is missing, as a number of whole runs: trials and points on the budget axis are shorter."""
    parameters: float
    state: float
    tokens: float
    flops: float | None
    """None where rows are learned from at once, nobody knows how often."""
    seconds: float | None
    """None where nothing could tell."""
    source: Literal["finished runs", "calibration"] | None
    takes_steps: bool
    """False where rows are learned from at once."""
    bytes_kept: float
    """On disk, of one whole run."""
    bytes_missing: float
    """Of all that is missing."""
    bytes_passing: float
    """The checkpoints of one run while it trains."""


@dataclass(frozen=True)
class Estimate:
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
    def flops(self) -> float:
        return sum(arm.missing_share * (arm.flops or 0.0) for arm in self.arms)

    @property
    def seconds(self) -> float:
        """One run after another."""
        return sum(arm.missing_share * (arm.seconds or 0.0) for arm in self.arms)

    @property
    def disk_bytes(self) -> float:
        """That will be kept, of the runs that are missing."""
        return sum(arm.bytes_missing for arm in self.arms)

    @property
    def passing_bytes(self) -> float:
        """More while one run trains."""
        return max((arm.bytes_passing for arm in self.arms if arm.missing), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        whole = ("runs", "trials", "missing", "flops", "seconds", "disk_bytes", "passing_bytes")
        return {"arms": [asdict(arm) for arm in self.arms], **{name: getattr(self, name) for name in whole}}


Timer = Callable[[Mapping[str, Mapping[str, Any]]], Mapping[str, float]]
"""From the arms' configurations to seconds of training of one run."""


@dataclass(frozen=True)
class _Left:
    """What is missing of an arm."""

    runs: int
    whole: float
    """As a number of whole runs."""
    bytes: float


def estimate(plan: Plan, *, threads: int | None = None, timer: Timer | None = None) -> Estimate:
    """Prepares the data where needed."""
    costed = {arm: _costed(plan, arm) for arm in (*used(plan.study), *plan.study.arms)}
    records = {cell: record_of(plan.run_folder(cell)) for cell in plan.cells}
    told = {arm: _of_finished(plan, arm, records) for arm in costed}
    left = {arm: _left(plan, arm, records, run.figure("parameters")) for arm, run in costed.items()}
    timed = {arm: seconds for arm, seconds in _of_matching(plan).items() if told[arm] is None}
    untimed = [arm for arm in costed if left[arm].runs and told[arm] is None and arm not in timed]
    unknown = {arm: plan.drafts[arm] for arm in untimed if View(plan.drafts[arm]).takes_steps}
    timed |= (timer or (lambda configs: _calibrated(configs, threads)))(unknown) if unknown else {}

    def of_arm(arm: str, run: CostedRun) -> ArmEstimate:
        parameters, draft = run.figure("parameters"), plan.drafts[arm]
        trials = plan.num_trials(arm)
        return ArmEstimate(
            arm=arm,
            runs=trials + _runs_of(plan, arm),
            trials=trials,
            missing=left[arm].runs,
            missing_share=left[arm].whole,
            parameters=parameters,
            state=run.figure("state_elements"),
            tokens=run.figure("tokens"),
            flops=run.figures().get("training_flops"),
            seconds=timed.get(arm, told[arm]),
            source="calibration" if arm in timed else "finished runs" if told[arm] is not None else None,
            takes_steps=View(draft).takes_steps,
            bytes_kept=kept_bytes(draft, parameters),
            bytes_missing=left[arm].bytes,
            bytes_passing=passing_bytes(draft, parameters),
        )

    return Estimate(tuple(of_arm(arm, run) for arm, run in costed.items()))


def _left(plan: Plan, arm: str, records: Records, parameters: float) -> _Left:
    """Runs that are known and not done, and those that follow from them."""
    draft = plan.drafts[arm]
    whole = _whole(draft)
    missing = [cell for cell in plan.of_arm(arm) if not _is_done(records[cell])]
    steps = [cell.config["trainer"]["max_steps"] for cell in missing]
    kept = [kept_bytes(cell.config, parameters) for cell in missing]
    known = [cell for cell in plan.of_arm(arm) if cell.trial is not None]
    if later := plan.num_trials(arm) - len(known):
        trial = known[0].config if known else _trial_of(plan, arm)
        steps += [trial["trainer"]["max_steps"]] * later
        kept += [kept_bytes(trial, parameters)] * later
    awaited = _runs_of(plan, arm) - (len(plan.of_arm(arm)) - len(known))
    if awaited:
        steps += [round(fmean(plan.study.shares) * whole)] * awaited
        kept += [kept_bytes(draft, parameters)] * awaited
    return _Left(len(steps), sum(_share(each, whole) for each in steps), sum(kept))


def _whole(draft: Mapping[str, Any]) -> int:
    """Steps of a whole run; 0 where there are none, whatever is set."""
    return draft["trainer"]["max_steps"] if View(draft).takes_steps else 0


def _share(steps: int, whole: int) -> float:
    """Of a whole run; one that takes no steps is whole."""
    return steps / whole if whole else 1.0


def _trial_of(plan: Plan, arm: str) -> dict[str, Any]:
    """As far as it matters here, while the foundation that trials start from is not laid."""
    draft = plan.drafts[arm]
    steps = plan.tunings[arm].tuning.steps or draft["trainer"]["max_steps"]
    return {**draft, "trainer": {**draft["trainer"], "max_steps": steps, "keep_checkpoints": "none"}}


def _runs_of(plan: Plan, arm: str) -> int:
    """Trials aside, of an arm or a foundation; a foundation has one for the trials that start from it."""
    return plan.num_runs_each if arm in plan.study.arms else len(plan.study.seeds) + bool(plan.tunings)


def _costed(plan: Plan, arm: str) -> CostedRun:
    from headtohead.studying.matching.costing import costed

    try:
        return costed(plan.drafts[arm])
    except ConfigurationError as error:
        raise ConfigurationError(f"study {plan.study.name}, arm {arm}: {error}") from None


def _is_done(record: RunRecord | None) -> bool:
    return record is not None and record.status in DONE


def _of_finished(plan: Plan, arm: str, records: Records) -> float | None:
    """A whole run from start to end, all included; a run that was interrupted in between does not tell."""
    whole = _whole(plan.drafts[arm])
    spans: dict[bool, list[float]] = {True: [], False: []}
    for cell in plan.of_arm(arm):
        record = records[cell]
        if record is None or record.status != "finished" or record.timing.starts != 1:
            continue
        if (span := _span(record)) is not None:
            spans[cell.counts].append(span / _share(cell.config["trainer"]["max_steps"], whole))
    found = spans[True] or spans[False]
    return fmean(found) if found else None


def _span(record: RunRecord) -> float | None:
    """None where the record, which somebody else may have written, does not tell."""
    started, finished = record.timing.started, record.timing.finished
    if started is None or finished is None:
        return None
    try:
        return (datetime.fromisoformat(finished) - datetime.fromisoformat(started)).total_seconds()
    except TypeError:  # one with a zone, the other without
        return None


def _of_matching(plan: Plan) -> dict[str, float]:
    """Where the budget is time, it was measured."""
    arms = () if plan.matching is None else plan.matching.arms
    steps = {arm.name: plan.drafts[arm.name]["trainer"]["max_steps"] for arm in arms}
    return {arm.name: arm.timing.step_seconds * steps[arm.name] for arm in arms if arm.timing is not None}


def _calibrated(configs: Mapping[str, Mapping[str, Any]], threads: int | None) -> dict[str, float]:
    """Training alone: start, validation and test come on top."""
    from headtohead.studying.matching.calibration import calibrate

    alike = {arm: {**config, "trainer": _with_threads(config["trainer"], threads)} for arm, config in configs.items()}
    try:
        timings = calibrate(alike, rounds=_ROUNDS, turn_steps=_TURN_STEPS)
    except (RuntimeError, ValueError, MemoryError):
        return {}  # what cannot be run has its say in the report; a plan without times is still a plan
    return {arm: timing.step_seconds * configs[arm]["trainer"]["max_steps"] for arm, timing in timings.items()}


def _with_threads(trainer: Mapping[str, Any], threads: int | None) -> dict[str, Any]:
    return {**trainer, "threads": trainer["threads"] or threads}
