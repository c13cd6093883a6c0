"""What the runs of a study say: each arm's result and costs, a verdict for each contrast, and every failure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from headtohead.building.errors import ConfigurationError, unknown
from headtohead.comparing.arms import Costs, costs_of
from headtohead.comparing.conditions import UnlikeConditions, sentences_on, unlike_conditions
from headtohead.comparing.intervals import mean_interval
from headtohead.comparing.kernels import with_kernels
from headtohead.comparing.row_intervals import with_rows
from headtohead.comparing.scales import chance_in, metric_in
from headtohead.comparing.solving import TimesToSolve, unit_under
from headtohead.comparing.verdict import Times, Verdict
from headtohead.comparing.verdict_file import FILE
from headtohead.files.writing import replace_text
from headtohead.studying.auditing import audit
from headtohead.studying.cells import Cell
from headtohead.studying.foundations import costs_told
from headtohead.studying.history import History, history_of
from headtohead.studying.judging import family_asked, judged, scale_of, surprises
from headtohead.studying.planning import Plan
from headtohead.studying.registering import asked_by, registered
from headtohead.studying.running import DONE, record_of
from headtohead.studying.study import Study
from headtohead.tracking.leaks import leaks_in
from headtohead.tracking.record import RunRecord


@dataclass(frozen=True)
class RunLine:
    """One run of the plan, done or not."""

    id: str
    arm: str
    seed: int
    trial: int | None
    share: float
    status: str
    """That of the record, or missing."""
    reason: str | None
    value: float | None
    folder: str
    is_foundation: bool = False

    @property
    def counts(self) -> bool:
        """Whether a verdict may rest on it."""
        return self.trial is None and self.share == 1 and not self.is_foundation

    @property
    def words(self) -> str:
        """b, seed 3."""
        which = f"seed {self.seed}" if self.trial is None else f"trial {self.trial}"
        return f"{self.arm}, {which}" + (f", {self.share:.0%} of the budget" if self.share != 1 else "")


@dataclass(frozen=True)
class ArmResult:
    """One arm over its seeds; None where no run tells."""

    arm: str
    mean: float | None
    interval: tuple[float, float] | None
    costs: Costs
    finished: int
    failures: int
    """Diverged, out of memory, failed."""


@dataclass(frozen=True)
class Report:
    """All there is to say, from records alone."""

    study: Study
    runs: tuple[RunLine, ...]
    arms: tuple[ArmResult, ...]
    verdicts: tuple[Verdict, ...]
    remarks: tuple[str, ...]
    """What stands between the runs and a verdict, and what is not as expected."""
    complete: bool
    """Whether every run is done, and none follows."""
    records: Mapping[Cell, RunRecord | None] = field(repr=False)
    chance: float | None = None
    """What a model that learned nothing gets, of the study's metric."""
    history: History = field(default_factory=History)
    """Of the registrations in its folder."""
    unlike: tuple[UnlikeConditions, ...] = ()
    """Conditions other than what makes the arms in which their runs differ."""

    @property
    def failures(self) -> list[RunLine]:
        return [run for run in self.runs if run.status in DONE and run.status != "finished"]

    @property
    def undone(self) -> list[RunLine]:
        """Half-done runs count as none."""
        return [run for run in self.runs if run.status not in DONE]

    @property
    def withheld(self) -> bool:
        """Whether all is done, and yet no verdict may be given."""
        return self.complete and not self.verdicts and bool(self.study.contrasts)

    def verdict_on(self, arm: str) -> Verdict | None:
        """Against the baseline."""
        against = (verdict for verdict in self.verdicts if verdict.baseline == self.study.baseline)
        return next((verdict for verdict in against if verdict.arm == arm), None)

    def to_dict(self) -> dict[str, Any]:
        return {
            "study": asdict(self.study),
            "complete": self.complete,
            "chance": self.chance,
            "verdicts": [verdict.as_data() for verdict in self.verdicts],
            "family": family_asked(self.study).to_dict(),
            "arms": [asdict(arm) for arm in self.arms],
            "remarks": list(self.remarks),
            "history": self.history.to_dict(),
            "unlike_conditions": [unlike.to_dict() for unlike in self.unlike],
            "runs": [asdict(run) for run in self.runs],
        }


def report_of(plan: Plan) -> Report:
    """Reads every record of the plan; half a run is none."""
    study = plan.study
    records = {cell: record_of(plan.run_folder(cell)) for cell in plan.cells}
    runs = tuple(_line(plan, cell, record) for cell, record in records.items())
    contest = {cell: records[cell] for cell in plan.contest}
    _check_metric(study, contest.values())
    arms = tuple(_arm(study, arm, [(c, r) for c, r in contest.items() if c.arm == arm], runs) for arm in study.arms)
    checked = audit(plan, {cell: record for cell, record in contest.items() if record and record.status == "finished"})
    unmeasured = _unmeasured(study, contest)
    outcomes = [(run.arm, run.seed, run.status, run.value) for run in runs if run.counts and run.arm not in unmeasured]
    known, times = [record for record in contest.values() if record is not None], times_to_solve(study, contest)
    measured, scale = metric_in(known, study.stage_and_name[1]), scale_of(study, known)
    written, asked = registered(plan), asked_by(plan)
    verdicts = (
        []
        if checked.objections
        else judged(study, outcomes, written, asked, measured=measured, scale=scale, times=times)
    )
    complete = not plan.is_open and all(run.status in DONE for run in runs)
    verdicts = [verdict for verdict in verdicts if not {verdict.arm, verdict.baseline} & unmeasured.keys()]
    verdicts = with_rows(with_kernels(verdicts, known), known, study.metric)
    told = [f"no verdict on {arm}, which has no {study.metric}: {reason}" for arm, reason in unmeasured.items()]
    told += costs_told(study, records)
    unlike = _unlike(plan, contest)
    told += [*leaks_in(known), *sentences_on(unlike)]
    remarks = [
        *study.departures,
        *checked.objections,
        *told,
        *checked.remarks,
        *(surprises(study, verdicts) if complete else ()),
    ]
    return Report(
        study,
        runs,
        arms,
        tuple(verdicts),
        tuple(remarks),
        complete,
        records,
        chance=chance_in(known, *study.stage_and_name),
        history=history_of(plan),
        unlike=tuple(unlike),
    )


def _unlike(plan: Plan, contest: Mapping[Cell, RunRecord | None]) -> list[UnlikeConditions]:
    """The budget and the tuning of an arm are part of what makes it."""
    runs = {arm: [record for cell, record in contest.items() if record and cell.arm == arm] for arm in plan.study.arms}
    return unlike_conditions(runs, plan.study.contrasts, {arm: plan.what_makes(arm) for arm in plan.study.arms})


def write(told: Mapping[str, Any], folder: Path) -> Path:
    """verdict.json, beside the runs."""
    file = folder / FILE
    replace_text(file, json.dumps(told, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    return file


def _line(plan: Plan, cell: Cell, record: RunRecord | None) -> RunLine:
    status, reason = (record.status, record.reason) if record is not None else ("missing", None)
    value = None if cell.is_foundation else _value(plan.study, record)
    place = (cell.arm, cell.seed, cell.trial, cell.share)
    return RunLine(cell.id, *place, status, reason, value, str(plan.run_folder(cell)), cell.is_foundation)


def _value(study: Study, record: RunRecord | None) -> float | None:
    stage, name = study.stage_and_name
    if record is None or record.status != "finished":
        return None
    value = record.metrics.get(stage, {}).get(name)
    return value if value is not None and math.isfinite(value) else None


def _unmeasured(study: Study, records: Mapping[Cell, RunRecord | None]) -> dict[str, str]:
    """Arms that cannot be measured as the study asks, such as tables of positions on longer rows, and why not."""
    stage = study.stage_and_name[0]
    known = ((cell.arm, record.cannot) for cell, record in records.items() if record is not None)
    return {arm: cannot[stage] for arm, cannot in known if stage in cannot}


def _check_metric(study: Study, records: Iterable[RunRecord | None]) -> None:
    stage, name = study.stage_and_name
    finished = [record for record in records if record is not None and record.status == "finished"]
    for record in finished:
        known = record.metrics.get(stage, {})
        if name not in known and stage not in record.cannot:
            raise ConfigurationError(
                unknown(f"study {study.name}: run {record.id} has no {study.metric}", name, sorted(known))
            )


def _arm(study: Study, arm: str, cells: Sequence[tuple[Cell, RunRecord | None]], runs: Sequence[RunLine]) -> ArmResult:
    lines = [run for run in runs if run.arm == arm and run.counts]
    done = [record for _, record in cells if record is not None and record.status == "finished"]
    values = [run.value for run in lines if run.value is not None]
    return ArmResult(
        arm=arm,
        mean=fmean(values) if values else None,
        interval=mean_interval(values, study.alpha, metric_in(done, study.stage_and_name[1]) or study.metric),
        costs=costs_of(done),
        finished=len(done),
        failures=sum(run.status in DONE and run.status != "finished" for run in lines),
    )


def times_to_solve(study: Study, records: Mapping[Cell, RunRecord | None]) -> Times:
    """As the runs came along."""
    runs = [(cell.arm, cell.seed, record) for cell, record in records.items() if record is not None]
    return TimesToSolve(runs, study.metric, study.direction, unit=unit_under(study.budget_name))
