"""Studies from Python: run or resumed, reported, and what was found as objects."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headtohead.api.comparing import ReportedResults, verdict_rows
from headtohead.api.error_translation import python_errors, python_errors_with
from headtohead.api.progress import Report, progress_of_runs
from headtohead.api.result import Result
from headtohead.api.study_definition import StudyDefinition
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.contrasts import Verdict
from headtohead.comparison.report import FILE, write_report
from headtohead.config.rules.data_paths import check_data_paths
from headtohead.config.trust import trusting
from headtohead.errors import UsageError
from headtohead.execution.launchers.launcher import EndedCommand, LocalProcesses, errors_of
from headtohead.execution.launchers.worker_commands import Workers, workers_for
from headtohead.execution.monitor import Monitor, run_here, run_to_the_end
from headtohead.execution.run_spec import Replan, RunSpec, WorkPlan, run_name_of
from headtohead.execution.single_run import details_of, is_done
from headtohead.ranges import Positive, Threads
from headtohead.studies.definition.read_study_file import read_study
from headtohead.studies.definition.study import Study
from headtohead.studies.planning.matched_arms import refuse_unmatched
from headtohead.studies.planning.registration import prepare, with_listed_runs
from headtohead.studies.planning.shards import Shard, as_shard, no_share, shard_of, work_of
from headtohead.studies.planning.study_plan import StudyPlan, StudyPlanner
from headtohead.studies.planning.study_runs import refuse_impossible_layers
from headtohead.studies.results.report_content import report_data, results_from_study
from headtohead.studies.results.study_report import RunLine, StudyReport, report_of, write

if TYPE_CHECKING:
    from headtohead.api.estimated_study import EstimatedStudy, PlannedStudy
    from headtohead.studies.planning.cost_estimate import CostEstimate

Tell = Callable[[str], None]
Question = str | Path | StudyDefinition
"""A shipped study by its name, a study's file, or one that was written in Python."""


@dataclass(frozen=True)
class StudyResults(ReportedResults):
    """The results of a study so far: a verdict for each contrast, once its runs are there."""

    plan: StudyPlan
    """The runs of the study: what is done, and what remains."""
    study_report: StudyReport
    """The verdicts and all that the report shows."""
    command: str
    """Resumes the study, or reports it again."""
    config_dir: str | None = None
    """The folder with choices of the user's own, where the study names some."""
    shard: Shard | None = None
    """The share that was requested, of how many; None where it is all runs."""
    errors: Sequence[str] = ()
    """The last words of workers that ended with an error."""

    __repr__ = Result.__repr__

    @property
    def title(self) -> str:
        state = "" if self.complete else f" ({self._undone()}: {self.command})"
        return f"{self.plan.study.name}: {self.plan.study.question}{state}"

    def _undone(self) -> str:
        undone = {run.id for run in self.study_report.undone}
        if self.shard is None:
            return f"{len(undone)} of {self.plan.num_runs} runs are not done"
        ours = {run.id for run in shard_of(self.plan, *self.shard)}
        index, count = self.shard
        share = f"the {len(ours)} runs of share {index} of {count}"
        return f"{len(ours & undone)} of {share} are not done" if ours & undone else f"{share} are done, others are not"

    @property
    def sentences(self) -> Sequence[str]:
        return [*self.errors, *self.failures, *(verdict.sentence for verdict in self.verdicts), *self.remarks]

    @property
    def failures(self) -> Sequence[str]:
        """Return for each reason by which runs failed a sentence with the runs, and where the first of them says more:
        what it printed, or its folder."""
        failed: dict[str, list[RunLine]] = {}
        for run in self.study_report.failures:
            if run.status == "failed":
                failed.setdefault(run.reason or "no reason is known", []).append(run)
        return [self._failure(reason, runs) for reason, runs in failed.items()]

    def _failure(self, reason: str, runs: Sequence[RunLine]) -> str:
        names = ", ".join(run_name_of(run.arm, run.seed, run.trial, run.share) for run in runs)
        more = details_of(self.plan.folder, runs[0].id, Path(runs[0].folder))
        return f"{names} failed: {reason} ({more})"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        """Return a row for each arm: its mean, interval, costs and verdict."""
        baseline = self.plan.study.baseline
        against = {row["arm"]: row for row in verdict_rows(self.verdicts) if row["against"] == baseline}
        against[baseline] = {"verdict": "baseline"}
        return [
            {
                "arm": arm.arm,
                self.plan.study.metric: arm.mean,
                "interval": arm.interval,
                "seeds": arm.finished,
                "verdict": "baseline"
                if arm.arm == self.plan.study.baseline
                else against.get(arm.arm, {}).get("verdict"),
                "difference": against.get(arm.arm, {}).get("difference"),
            }
            for arm in self.study_report.arms
        ]

    @property
    def verdicts(self) -> Sequence[Verdict]:
        """Return a verdict for each contrast, as far as runs tell."""
        return self.study_report.verdicts

    @property
    def remarks(self) -> Sequence[str]:
        """Return what stands between the runs and a verdict, and what is not as expected."""
        return self.study_report.remarks

    @property
    def complete(self) -> bool:
        """Return whether every run is done, and none follows."""
        return self.study_report.complete

    @cached_property
    def results(self) -> ComparisonResults:
        return results_from_study(self.plan, self.study_report, command=self.command, config_dir=self.config_dir)

    @python_errors
    def estimate(self, *, workers: Threads = 1, threads: Threads | None = None) -> EstimatedStudy:
        """Return what each arm costs, what is missing of it, and how long so many workers take; without finished runs,
        after a short calibration. A study that adds seeds until it is decided has a best and a worst case."""
        from headtohead.api.estimated_study import EstimatedStudy
        from headtohead.studies.planning.cost_estimate import estimate

        many, _ = workers_for((), workers, threads, self.config_dir)
        return EstimatedStudy(self.plan, estimate(self.plan, threads=many.threads), workers)

    @python_errors
    def plan_on(self, on: str, *, price: Positive | None = None) -> PlannedStudy:
        """Return what the runs of each arm take on devices that `h2h.plan` knows: `plan_on("h100x8", price=2.5)`."""
        from headtohead.api.estimated_study import planned_study

        return planned_study(self.plan, on, price)

    def report(self, file: str | Path | None = None) -> Path:
        """Write the report, a single file that opens in any browser, and return its path."""
        path = self.plan.folder / FILE if file is None else Path(file)
        write_report(self.results, path)
        return path

    def write(self) -> tuple[dict[str, Any], list[Path]]:
        """Write verdict.json and the report beside the runs; return the content of the former, and both files."""
        data = report_data(self.study_report, self.results)
        return data, [write(data, self.plan.folder), self.report()]


@dataclass(frozen=True)
class StudyRequest:
    """A study that is to be run: by whom, and the words that make a worker of this program work on it."""

    study: Study
    workers: Workers
    arguments: tuple[str, ...]
    shard: Shard | None = None
    tell: Tell | None = None
    in_this_process: bool = False

    def __post_init__(self) -> None:
        if self.shard is not None and not 1 <= self.shard[0] <= self.shard[1]:
            raise UsageError(no_share("/".join(map(str, self.shard))))

    @property
    def shard_words(self) -> tuple[str, ...]:
        """Return the option that makes a command work on this share."""
        return ("--shard", "/".join(map(str, self.shard))) if self.shard else ()

    @cached_property
    def planner(self) -> StudyPlanner:
        """Return the planner of the study; a shard of it must have the sizes that the whole was matched by."""
        planner = StudyPlanner(self.study, self.workers.config_dir, threads=self.workers.threads, report=self.tell)
        if not planner.has_begun:  # runs that ended need nothing
            is_here = isinstance(self.workers.launcher, LocalProcesses)  # other machines may have other files
            for config in planner.written.values() if is_here else ():
                check_data_paths(config)
            refuse_impossible_layers(planner.study, planner.written)
            if is_here:
                from headtohead.studies.planning.comparable_arms import refuse_incomparable  # it imports torch

                refuse_incomparable(planner.study, planner.written)
        from headtohead.config.mentions import mention  # it imports torch

        for config in planner.written.values():
            mention(config)
        if self.shard:
            refuse_unmatched(planner.study, planner.written, planner.folder)
        return planner

    def planned(self) -> tuple[StudyPlan, Sequence[RunSpec]]:
        """Return the plan as far as it is known now, and the runs that are the user's own."""
        plan = self.planner.plan()
        return plan, shard_of(plan, *self.shard) if self.shard else plan.runs

    def work(self) -> tuple[WorkPlan, Sequence[RunSpec]]:
        """Return the same as workers follow it: those of a shard end when its own runs have."""
        return work_of(self.planner.plan, self.shard)

    def check_start(self) -> None:
        """Raise ConfigurationError where runs are missing that nothing could start from here: before arms are matched
        to a budget where none is there yet, and before costs are estimated."""
        if not self.planner.has_begun:
            self.workers.launcher.check_here()
            return
        plan, runs = self.planned()
        if plan.is_open or not all(is_done(plan.run_folder(run)) for run in runs):
            self.workers.launcher.check_here()

    def num_runs(self, statuses: Sequence[object] = ()) -> int:
        """Return how many runs there will be; of a shard, as many as there are."""
        return len(statuses) if self.shard else self.planned()[0].num_runs

    def refuse_over_disk(self, gigabytes: float, estimated: CostEstimate | None = None) -> None:
        """Raise ConfigurationError where the study would take more of the disk."""
        from headtohead.studies.planning.cost_estimate import estimate
        from headtohead.studies.planning.disk_budget import refuse_over_disk

        plan, _ = self.planned()
        costs = estimated or estimate(plan, threads=self.workers.threads)
        refuse_over_disk(plan, costs, self.workers.number, gigabytes)

    def conduct(self, report: Report, *, retry: bool = False) -> list[EndedCommand]:
        """Do what is missing; raise KeyboardInterrupt where somebody stops it, and what is done is kept."""
        plan, started = self.planner.plan(), datetime.now(UTC)
        prepare(plan, retry=retry)

        def plan_now() -> StudyPlan:
            return with_listed_runs(self.planner.plan(), started)

        plan = plan_now() if retry else with_listed_runs(plan, started)
        try:
            return self._run_to_the_end(plan, lambda: work_of(plan_now, self.shard), report)
        finally:
            plan_now()

    def _run_to_the_end(self, plan: StudyPlan, again: Replan, report: Report) -> list[EndedCommand]:
        if self.in_this_process:
            run_here(again, report, self.workers.threads)
            return []
        monitor = Monitor(plan, shard_of(plan, *self.shard) if self.shard else plan.runs, again)
        missing = sum(not standing.is_done for standing in monitor.update())
        most = None if plan.is_open else missing
        commands = self.workers.commands((*self.arguments, *self.shard_words), plan, plan.runs, most=most)
        return run_to_the_end(monitor, self.workers.launcher, commands, report)

    def results(self, errors: Sequence[str] = ()) -> StudyResults:
        """Return what the records say now, and the sentences on workers that ended with an error."""
        plan, _ = self.planned()
        where = ("--config-dir", str(self.workers.config_dir)) if self.workers.config_dir else ()
        command = shlex.join(("h2h", *self.arguments, *self.shard_words, *where))
        config_dir = None if self.workers.config_dir is None else str(self.workers.config_dir)
        return StudyResults(plan, report_of(plan), command, config_dir, self.shard, errors)


@python_errors_with(plan="run=False")
def study(
    question: Question,
    overrides: Sequence[str] = (),
    *,
    workers: Threads = 1,
    threads: Threads | None = None,
    config_dir: str | Path | None = None,
    retry: bool = False,
    shard: Sequence[int] | None = None,
    disk: Positive | None = None,
    trust: Sequence[str] = (),
    progress: bool = True,
    run: bool = True,
) -> StudyResults:
    """Run or resume a study, and return its verdicts: `study("norms_small", ["seeds=5"], workers=2)`.

    `question` is a shipped study, a study's file or an `h2h.Study`. Overrides are fields of the study, of every run, or
    of the launcher (`launcher=slurm`). `report.html` and `verdict.json` are beside the runs, below `outputs/studies/`.
    Ctrl-C stops it, and returns what is known so far; the same call resumes. `retry` restarts what failed. `shard`
    makes a share of the runs, (1, 2) or (2, 2), where machines share no folder; `disk` refuses a study that would take
    more gigabytes. With `run=False` nothing is run: `.estimate()` says what is missing, and what it costs,
    `.plan_on("h100x8")` what it takes on other devices.
    """
    with trusting(trust):
        request = _request(question, workers_for(overrides, workers, threads, config_dir, trust), shard)
        if run:
            request.check_start()
        if disk is not None:
            request.refuse_over_disk(disk)
        if not run:
            return request.results()
        try:
            with progress_of_runs(request.num_runs, shown=progress) as report:
                ended = request.conduct(report, retry=retry)
        except KeyboardInterrupt:
            ended = []
        results = request.results(errors_of(ended))
        results.write()
        return results


def _request(
    question: Question,
    chosen: tuple[Workers, list[str]],
    shard: Sequence[int] | None,
) -> StudyRequest:
    many, run_overrides = chosen
    share = None if shard is None else as_shard(shard)
    if not isinstance(question, StudyDefinition):
        known = read_study(str(question), run_overrides, many.config_dir)
        return StudyRequest(known, many, ("study", str(question), *run_overrides), share)
    if question.is_defined_here and many.number > 1:
        raise UsageError(
            "workers cannot import what was written in this notebook or script, whose runs are made in this process: "
            "leave workers= out, or write the classes into a file and import them from there"
        )
    if question.config_dir is not None:
        if many.config_dir is not None:
            raise UsageError(
                "arms are classes of your own, and config_dir names choices: write the classes' YAML files there too "
                "(CONTRIBUTING.md has the four steps), and name them by overrides"
            )
        many = replace(many, config_dir=question.config_dir)
    file = _saved(question)
    words, known = ("study", str(file), *run_overrides), read_study(str(file), run_overrides, many.config_dir)
    return StudyRequest(known, many, words, share, in_this_process=question.is_defined_here)


def _saved(question: StudyDefinition) -> Path:
    """Write the study where workers, and whoever resumes it by a command, find it."""
    file = Path("outputs") / "studies" / question.name / f"{question.name}.yaml"
    question.to_yaml(file)
    return file
