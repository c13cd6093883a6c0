"""Studies from Python: run or resumed, reported, and what was found as objects."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from headtohead.api.comparing import ReportedResults, verdict_rows
from headtohead.api.progress import Report, progress_of_runs
from headtohead.api.result import Result, upgraded
from headtohead.api.spoken_errors import speaks_python
from headtohead.api.study_definition import StudyDefinition
from headtohead.comparison.comparison_results import ComparisonResults
from headtohead.comparison.contrasts import Verdict
from headtohead.comparison.report import FILE, write_report
from headtohead.config.compose.composition import compose_checked
from headtohead.config.compose.overrides import key_of
from headtohead.config.mentions import mentions
from headtohead.config.trust import trusting
from headtohead.errors import UsageError
from headtohead.execution.launchers.launcher import EndedCommand
from headtohead.execution.launchers.worker_commands import Workers, workers_for
from headtohead.execution.monitor import Monitor, run_here, run_to_the_end
from headtohead.execution.run_spec import RunSpec
from headtohead.studies.definition.read_study_file import read_study
from headtohead.studies.definition.study import RequestedBudget, Study, without_foundation
from headtohead.studies.matching.budgets import budget_of
from headtohead.studies.matching.matching import Matching
from headtohead.studies.matching.solver import match as match_arms
from headtohead.studies.planning.matched_arms import refuse_unmatched
from headtohead.studies.planning.registration import prepare
from headtohead.studies.planning.study_plan import StudyPlan, StudyPlanner, shard_of
from headtohead.studies.results.report_content import report_data, results_from_study
from headtohead.studies.results.study_report import StudyReport, report_of, write

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

    __repr__ = Result.__repr__

    @property
    def title(self) -> str:
        undone = len(self.study_report.undone)
        state = "" if self.complete else f" ({undone} of {self.plan.num_runs} runs are not done: {self.command})"
        return f"{self.plan.study.name}: {self.plan.study.question}{state}"

    @property
    def sentences(self) -> Sequence[str]:
        return [*self.failures, *(verdict.sentence for verdict in self.verdicts), *self.remarks]

    @property
    def failures(self) -> Sequence[str]:
        """Return for each reason by which runs failed a sentence with the runs."""
        failed: dict[str, list[str]] = {}
        for record in self.results.records:
            if record.status == "failed":
                failed.setdefault(record.reason or "no reason is known", []).append(record.name)
        return [f"{', '.join(names)} failed: {reason}" for reason, names in failed.items()]

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
    shard: tuple[int, int] | None = None
    tell: Tell | None = None
    in_this_process: bool = False

    @cached_property
    def planner(self) -> StudyPlanner:
        """Return the planner of the study; a shard of it must have the sizes that the whole was matched by."""
        planner = StudyPlanner(self.study, self.workers.config_dir, threads=self.workers.threads, report=self.tell)
        for sentence in dict.fromkeys(one for config in planner.written.values() for one in mentions(config)):
            if self.tell is not None:
                self.tell(sentence)
        if self.shard:
            refuse_unmatched(planner.study, planner.written, planner.folder)
        return planner

    def planned(self) -> tuple[StudyPlan, Sequence[RunSpec]]:
        """Return the plan as far as it is known now, and the runs that are the user's own."""
        plan = self.planner.plan()
        return plan, shard_of(plan, *self.shard) if self.shard else plan.runs

    def conduct(self, report: Report, *, retry: bool = False) -> list[EndedCommand]:
        """Do what is missing; raise KeyboardInterrupt where somebody stops it, and what is done is kept."""
        plan, runs = self.planned()
        prepare(plan, retry=retry)
        if self.in_this_process:
            run_here(self.planned, report, self.workers.threads)
            return []
        monitor = Monitor(plan, runs, again=self.planned)
        missing = sum(not standing.is_done for standing in monitor.update())
        most = None if plan.is_open else missing
        shard = ("--shard", "/".join(map(str, self.shard))) if self.shard else ()
        commands = self.workers.commands((*self.arguments, *shard), plan, plan.runs, most=most)
        return run_to_the_end(monitor, self.workers.launcher, commands, report)

    def results(self) -> StudyResults:
        """Return what the records say now."""
        plan, _ = self.planned()
        where = ("--config-dir", str(self.workers.config_dir)) if self.workers.config_dir else ()
        command = shlex.join(("h2h", *self.arguments, *where))
        config_dir = None if self.workers.config_dir is None else str(self.workers.config_dir)
        return StudyResults(plan, report_of(plan), command, config_dir)


@speaks_python
def study(
    question: Question,
    overrides: Sequence[str] = (),
    *,
    workers: int = 1,
    threads: int | None = None,
    config_dir: str | Path | None = None,
    retry: bool = False,
    trust: Sequence[str] = (),
    progress: bool = True,
) -> StudyResults:
    """Run or resume a study, and return its verdicts: `study("norms_small", ["seeds=5"], workers=2)`.

    `question` is a shipped study, a study's file or an `h2h.Study`. Overrides are fields of the study, of every run, or
    of the launcher (`launcher=slurm`). `report.html` and `verdict.json` are beside the runs, below `outputs/studies/`.
    Ctrl-C stops it, and returns what is known so far; the same call resumes. `retry` restarts what failed.
    """
    with trusting(trust):
        request = _request(question, overrides, workers, threads, config_dir, trust)
        try:
            with progress_of_runs(lambda _: request.planned()[0].num_runs, shown=progress) as report:
                ended = request.conduct(report, retry=retry)
        except KeyboardInterrupt:
            ended = []
        for worker in ended:
            if worker.code:
                raise UsageError(f"a worker ended with code {worker.code} ({worker.command.log}): {worker.last_words}")
        results = request.results()
        results.write()
        return results


def _request(
    question: Question,
    overrides: Sequence[str],
    workers: int,
    threads: int | None,
    config_dir: str | Path | None,
    trust: Sequence[str],
) -> StudyRequest:
    many, run_overrides = workers_for(overrides, workers, threads, config_dir, trust)
    if not isinstance(question, StudyDefinition):
        known = read_study(str(question), run_overrides, config_dir)
        return StudyRequest(known, many, ("study", str(question), *run_overrides))
    if question.is_defined_here and workers > 1:
        raise UsageError(
            "workers cannot import what was written in this notebook or script, whose runs are made in this process: "
            "leave workers= out, or write the classes into a file and import them from there"
        )
    if question.config_dir is not None:
        if config_dir is not None:
            raise UsageError(
                "arms are classes of your own, and config_dir names choices: write the classes' YAML files there too "
                "(CONTRIBUTING.md has the four steps), and name them by overrides"
            )
        config_dir = question.config_dir
        many = replace(many, config_dir=config_dir)
    file = _saved(question)
    return StudyRequest(
        read_study(str(file), run_overrides, config_dir),
        many,
        ("study", str(file), *run_overrides),
        in_this_process=question.is_defined_here,
    )


def _saved(question: StudyDefinition) -> Path:
    """Write the study where workers, and whoever resumes it by a command, find it."""
    file = Path("outputs") / "studies" / question.name / f"{question.name}.yaml"
    question.to_yaml(file)
    return file


class MatchedArms(Result, Matching):
    """The sizes at which arms cost what the baseline costs, a row for each arm."""

    @property
    def title(self) -> str:
        return f"{self.budget.figure} of {self.baseline}: {self.target:,.0f}"

    def as_rows(self) -> Sequence[Mapping[str, object]]:
        return [
            {
                "arm": arm.name,
                "overrides": list(arm.overrides),
                "achieved": arm.achieved,
                "residual": arm.residual,
                "met": arm.met,
                "reason": arm.reason or None,
            }
            for arm in self.arms
        ]


@speaks_python
def match(
    arms: Mapping[str, Sequence[str]] | str,
    overrides: Sequence[str] = (),
    *,
    baseline: str | None = None,
    budget: str | None = None,
    movable: Mapping[str, Sequence[str]] | None = None,
    config_dir: str | Path | None = None,
    tell: Tell | None = None,
) -> MatchedArms:
    """Find the sizes, or the steps, at which arms cost what the baseline costs; nothing is trained.

    `arms` are overrides by name, or the name of a study; `budget` is equal_parameters unless given (or equal_flops,
    equal_tokens, equal_state, equal_time, equal_energy), and `movable` says by arm what may change: width, head_size,
    depth, feedforward, steps; under "*" for every arm but the baseline. Overrides that begin with `budget.` are the
    budget's own, all others those of every arm.
    """
    known = _arms_of(arms, overrides, config_dir) if isinstance(arms, str) else None
    made = known.arms if known is not None else {name: tuple(own) for name, own in dict(arms).items()}  # type: ignore[arg-type]
    shared = list(overrides) if known is None else list(known.base)
    own = [word for word in shared if key_of(word).partition(".")[0] == "budget"]
    written = known.budget if known is not None and budget is None else None
    requested = written or RequestedBudget(budget or "equal_parameters")
    config = compose_checked("match", [*requested.overrides, *own], config_dir)
    first = baseline or (known.baseline if known is not None else next(iter(made)))
    named = {name: tuple(moves) for name, moves in (movable or {}).items()}
    of_others = dict.fromkeys([name for name in made if name != first], named.pop("*")) if "*" in named else {}
    moves = {**(known.movable if known is not None else {}), **of_others, **named}
    shapes = {name: without_foundation(own) for name, own in made.items()}
    base = [word for word in shared if word not in own]
    return upgraded(
        MatchedArms, match_arms(base, shapes, first, budget_of(config), moves, config_dir=config_dir, report=tell)
    )


def _arms_of(name: str, overrides: Sequence[str], config_dir: str | Path | None) -> Study:
    known = read_study(name, overrides, config_dir)
    return known if known.ablation is None else StudyPlanner(known, config_dir).study
