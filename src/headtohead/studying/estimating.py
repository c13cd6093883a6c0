"""What a study will cost before it runs: its arms by the ledger, its time by finished runs or a short calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from headtohead.building.errors import ConfigurationError
from headtohead.studying.planning import Cell, Plan
from headtohead.studying.running import DONE, record_of
from headtohead.tracking.record import RunRecord

if TYPE_CHECKING:
    from headtohead.studying.matching.costing import CostedRun

TOLERANCE = 0.02
_ROUNDS, _TURN_STEPS = 3, 3
_FIGURES: Mapping[str, Literal["parameters", "flops", "tokens", "state"]] = {
    "equal_parameters": "parameters",
    "equal_flops": "flops",
    "equal_tokens": "tokens",
    "equal_state": "state",
}


@dataclass(frozen=True)
class ArmEstimate:
    """One arm of the plan; FLOPs, tokens and seconds are those of one run."""

    arm: str
    runs: int
    missing: int
    parameters: float
    state: float
    tokens: float
    flops: float
    seconds: float | None
    """None where nothing could tell."""
    source: Literal["finished runs", "calibration"] | None


@dataclass(frozen=True)
class Estimate:
    """All arms, and what is left to do."""

    arms: tuple[ArmEstimate, ...]

    @property
    def missing(self) -> int:
        return sum(arm.missing for arm in self.arms)

    @property
    def flops(self) -> float:
        return sum(arm.missing * arm.flops for arm in self.arms)

    @property
    def seconds(self) -> float:
        """One run after another."""
        return sum(arm.missing * (arm.seconds or 0.0) for arm in self.arms)

    def to_dict(self) -> dict[str, Any]:
        arms = [asdict(arm) for arm in self.arms]
        return {"arms": arms, "missing": self.missing, "flops": self.flops, "seconds": self.seconds}


Timer = Callable[[Mapping[str, Mapping[str, Any]]], Mapping[str, float]]
"""From the arms' configurations to seconds of training of one run."""


def estimate(plan: Plan, *, threads: int | None = None, timer: Timer | None = None) -> Estimate:
    """Prepares the data where needed; refuses arms that differ in what the budget says is equal."""
    runs = {arm: _costed(plan, arm) for arm in plan.study.arms}
    records = {cell: record_of(plan.run_folder(cell)) for cell in plan.cells}
    told = {arm: _of_finished(plan.of_arm(arm), records) for arm in runs}
    missing = {arm: sum(not _is_done(records[cell]) for cell in plan.of_arm(arm)) for arm in runs}
    unknown = {arm: plan.of_arm(arm)[0].config for arm in runs if missing[arm] and told[arm] is None}
    timed = (timer or (lambda configs: _calibrated(configs, threads)))(unknown) if unknown else {}
    arms = tuple(
        ArmEstimate(
            arm=arm,
            runs=len(plan.of_arm(arm)),
            missing=missing[arm],
            parameters=run.figure("parameters"),
            state=run.figure("state_elements"),
            tokens=run.figure("tokens"),
            flops=run.figure("training_flops"),
            seconds=timed.get(arm, told[arm]),
            source="calibration" if arm in timed else "finished runs" if told[arm] is not None else None,
        )
        for arm, run in runs.items()
    )
    _check_budget(plan, arms)
    return Estimate(arms)


def _costed(plan: Plan, arm: str) -> CostedRun:
    from headtohead.studying.matching.costing import costed

    try:
        return costed(plan.of_arm(arm)[0].config)
    except ConfigurationError as error:
        raise ConfigurationError(f"study {plan.study.name}, arm {arm}: {error}") from None


def _is_done(record: RunRecord | None) -> bool:
    return record is not None and record.status in DONE


def _of_finished(cells: list[Cell], records: Mapping[Cell, RunRecord | None]) -> float | None:
    """From start to end, all included; a run that was interrupted in between does not tell."""
    found = [record for cell in cells if (record := records[cell]) is not None]
    spans = [_span(record) for record in found if record.status == "finished" and record.timing.starts == 1]
    return fmean(spans) if spans else None


def _span(record: RunRecord) -> float:
    started, finished = record.timing.started, record.timing.finished
    assert started is not None and finished is not None, "a finished run has both"
    return (datetime.fromisoformat(finished) - datetime.fromisoformat(started)).total_seconds()


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


def _check_budget(plan: Plan, arms: tuple[ArmEstimate, ...]) -> None:
    study = plan.study
    figure = _FIGURES.get(study.budget_name or "")
    if figure is None:
        return
    values = {arm.arm: float(getattr(arm, figure)) for arm in arms}
    base = values[study.baseline]
    for arm, value in values.items():
        if abs(value - base) > TOLERANCE * base:
            raise ConfigurationError(
                f"study {study.name}: budget={study.budget_name}, and {arm} has {value:,.0f} {figure} where "
                f"{study.baseline} has {base:,.0f}: h2h match shows what would meet it, and budget=null compares them "
                "as they are"
            )
