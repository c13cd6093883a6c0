"""Report on a study's runs: each arm's result and costs, a verdict for each contrast, and every failure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from headtohead.comparison.analyses.times_to_solve import TimesToSolve, unit_under
from headtohead.comparison.arms import ArmCosts, costs_of, has_no_number, sentence_on_no_number
from headtohead.comparison.conditions import ConditionMismatch, sentences_on, unlike_conditions
from headtohead.comparison.contrasts import Times, Verdict
from headtohead.comparison.metric_scales import chance_in, metric_in
from headtohead.comparison.same_numbers import sentences_on_same_numbers
from headtohead.comparison.statistics.means import mean_interval
from headtohead.comparison.tables.run_table import count
from headtohead.comparison.verdicts.verdict_details import with_kernels, with_rows
from headtohead.config.errors import ConfigurationError, unknown
from headtohead.execution.run_spec import RunSpec
from headtohead.execution.single_run import record_of
from headtohead.files.atomic_write import replace_text
from headtohead.records.leaks import leaks_in
from headtohead.records.left_out import left_out_in
from headtohead.records.record import ENDED, VERDICT_FILE, RunRecord
from headtohead.studies.definition.study import Study, foundation_of
from headtohead.studies.planning.registration import RegistrationHistory, design_of, history_of, registered
from headtohead.studies.planning.study_plan import StudyPlan
from headtohead.studies.results.study_verdicts import (
    check_runs,
    requested_family,
    scale_of,
    unexpected_verdicts,
    verdicts_of_study,
)


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
        """Return whether a verdict may rest on it."""
        return self.trial is None and self.share == 1 and not self.is_foundation

    @property
    def words(self) -> str:
        """Name the run: b, seed 3."""
        which = f"seed {self.seed}" if self.trial is None else f"trial {self.trial}, seed {self.seed}"
        return f"{self.arm}, {which}" + (f", {self.share:.0%} of the budget" if self.share != 1 else "")


@dataclass(frozen=True)
class ArmSummary:
    """One arm over its seeds; None where no run tells."""

    arm: str
    mean: float | None
    interval: tuple[float, float] | None
    costs: ArmCosts
    finished: int
    failures: int
    """Diverged, out of memory, failed."""


@dataclass(frozen=True)
class StudyReport:
    """All there is to say, from records alone."""

    study: Study
    runs: tuple[RunLine, ...]
    arms: tuple[ArmSummary, ...]
    verdicts: tuple[Verdict, ...]
    remarks: tuple[str, ...]
    """The obstacles between the runs and a verdict, and whatever is not as expected."""
    complete: bool
    """Whether every run is done, and none follows."""
    records: Mapping[RunSpec, RunRecord | None] = field(repr=False)
    chance: float | None = None
    """The score of a model that learned nothing, by the study's metric."""
    history: RegistrationHistory = field(default_factory=RegistrationHistory)
    """The history of the registrations in its folder."""
    unlike: tuple[ConditionMismatch, ...] = ()
    """Conditions other than what makes the arms in which their runs differ."""

    @property
    def failures(self) -> list[RunLine]:
        return [run for run in self.runs if run.status in ENDED and run.status != "finished"]

    @property
    def undone(self) -> list[RunLine]:
        """Half-done runs count as none."""
        return [run for run in self.runs if run.status not in ENDED]

    @property
    def withheld(self) -> bool:
        """Return whether all is done, and yet no verdict may be given."""
        return self.complete and not self.verdicts and bool(self.study.contrasts)

    def verdict_on(self, arm: str) -> Verdict | None:
        """Return the verdict on the arm against the baseline."""
        against = (verdict for verdict in self.verdicts if verdict.baseline == self.study.baseline)
        return next((verdict for verdict in against if verdict.arm == arm), None)

    def to_dict(self) -> dict[str, Any]:
        return {
            "study": asdict(self.study),
            "complete": self.complete,
            "chance": self.chance,
            "verdicts": [verdict.as_data() for verdict in self.verdicts],
            "family": requested_family(self.study).to_dict(),
            "arms": [asdict(arm) for arm in self.arms],
            "remarks": list(self.remarks),
            "history": self.history.to_dict(),
            "unlike_conditions": [unlike.to_dict() for unlike in self.unlike],
            "runs": [asdict(run) for run in self.runs],
        }


def report_of(plan: StudyPlan) -> StudyReport:
    """Reads every record of the plan; half a run is none."""
    study = plan.study
    records = {run: record_of(plan.run_folder(run)) for run in plan.runs}
    runs = tuple(_line(plan, run, record) for run, record in records.items())
    family_records = {run: records[run] for run in plan.family}
    _check_metric(study, family_records.values())
    arms = tuple(
        _arm(study, arm, [(c, r) for c, r in family_records.items() if c.arm == arm], runs) for arm in study.arms
    )
    checked = check_runs(
        plan, {run: record for run, record in family_records.items() if record and record.status == "finished"}
    )
    unmeasured = _unmeasured(study, family_records)
    outcomes = [(run.arm, run.seed, run.status, run.value) for run in runs if run.counts and run.arm not in unmeasured]
    known, times = (
        [record for record in family_records.values() if record is not None],
        times_to_solve(study, family_records),
    )
    measured, scale = metric_in(known, study.stage_and_name[1]), scale_of(study, known)
    written, design = registered(plan), design_of(plan)
    verdicts = (
        []
        if checked.objections
        else verdicts_of_study(
            study, outcomes, written, design, measured=measured, scale=scale, times=times, stops=plan.stops
        )
    )
    complete = not plan.is_open and all(run.status in ENDED for run in runs)
    verdicts = [verdict for verdict in verdicts if not {verdict.arm, verdict.baseline} & unmeasured.keys()]
    verdicts = with_rows(with_kernels(verdicts, known), known, study.metric)
    sentences = [f"no verdict on {arm}, which has no {study.metric}: {reason}" for arm, reason in unmeasured.items()]
    sentences += _foundation_costs(study, records)
    by_arm = {
        arm: [record for run, record in family_records.items() if record and run.arm == arm] for arm in study.arms
    }
    unlike = unlike_conditions(by_arm, study.contrasts, {arm: plan.what_makes(arm) for arm in study.arms})
    sentences += filter(None, [sentence_on_no_number(known, study.metric)])
    sentences += [*leaks_in(known), *left_out_in(known)]
    sentences += [*sentences_on(unlike), *sentences_on_same_numbers(by_arm, study.contrasts)]
    remarks = [
        *study.departures,
        *checked.objections,
        *sentences,
        *checked.remarks,
        *(unexpected_verdicts(study, verdicts) if complete else ()),
    ]
    return StudyReport(
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


def write(data: Mapping[str, object], folder: Path) -> Path:
    """Write verdict.json beside the runs."""
    file = folder / VERDICT_FILE
    replace_text(file, json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    return file


def _line(plan: StudyPlan, run: RunSpec, record: RunRecord | None) -> RunLine:
    status, reason = (record.status, record.reason) if record is not None else ("missing", None)
    value = None if run.is_foundation else _value(plan.study, record)
    key = (run.arm, run.seed, run.trial, run.share)
    return RunLine(run.id, *key, status, reason, value, str(plan.run_folder(run)), run.is_foundation)


def _value(study: Study, record: RunRecord | None) -> float | None:
    stage, name = study.stage_and_name
    if record is None or record.status != "finished":
        return None
    value = record.metrics.get(stage, {}).get(name)
    return value if value is not None and math.isfinite(value) else None


def _unmeasured(study: Study, records: Mapping[RunSpec, RunRecord | None]) -> dict[str, str]:
    """Arms that cannot be measured as the study asks, such as tables of positions on longer rows, and why not."""
    stage = study.stage_and_name[0]
    known = ((run.arm, record.cannot) for run, record in records.items() if record is not None)
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


def _arm(
    study: Study, arm: str, arm_runs: Sequence[tuple[RunSpec, RunRecord | None]], runs: Sequence[RunLine]
) -> ArmSummary:
    lines = [run for run in runs if run.arm == arm and run.counts]
    done = [record for _, record in arm_runs if record is not None and record.status == "finished"]
    values = [run.value for run in lines if run.value is not None]
    no_number = sum(has_no_number(record, study.metric) for record in done)
    return ArmSummary(
        arm=arm,
        mean=fmean(values) if values else None,
        interval=mean_interval(values, study.alpha, metric_in(done, study.stage_and_name[1]) or study.metric),
        costs=costs_of(done),
        finished=len(done) - no_number,
        failures=sum(run.status in ENDED and run.status != "finished" for run in lines) + no_number,
    )


def times_to_solve(study: Study, records: Mapping[RunSpec, RunRecord | None]) -> Times:
    """Return the times at which runs solved the task during training."""
    runs = [(run.arm, run.seed, record) for run, record in records.items() if record is not None]
    return TimesToSolve(runs, study.metric, study.direction, unit=unit_under(study.budget_name))


def _foundation_costs(study: Study, records: Mapping[RunSpec, RunRecord | None]) -> Iterator[str]:
    """Report what an arm's foundation cost: no budget counts it, and readers should know it."""
    for arm in study.arms:
        name = foundation_of(study, arm)
        done = [record for run, record in records.items() if run.is_foundation and run.arm == name and record]
        if name is not None and done:
            tokens, flops = (
                sum(getattr(record.progress, what) for record in done) / len(done) for what in ("tokens", "flops")
            )
            yield (
                f"{arm} starts from foundation {name}, whose {count(tokens)} tokens and {count(flops)} FLOPs for each "
                "seed are not counted in what was equal"
            )
