"""Runs of several tasks: a contest for each, and one over all of them, seed by seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from headtohead.comparing.across_tasks import Scores, TaskAggregate, aggregate_of
from headtohead.comparing.arms import arm_of, counts
from headtohead.comparing.comparability import seed_of
from headtohead.comparing.contest import Contest, Terms, contest_of
from headtohead.comparing.contest_rows import as_data
from headtohead.comparing.table import TASKS
from headtohead.comparing.verdict import Verdict
from headtohead.tracking.metrics import Curve
from headtohead.tracking.record import Place, Progress, RunRecord, Selection

METRIC = "normalised_score"


@dataclass(frozen=True)
class TaskContest:
    """What the arms are on each task, and over all."""

    tasks: dict[str, Contest]
    overall: Contest
    """Of the mean score over the tasks, seed by seed."""
    aggregate: TaskAggregate

    @property
    def verdicts(self) -> list[Verdict]:
        """Over all tasks."""
        return self.overall.verdicts

    def to_dict(self) -> dict[str, Any]:
        return {
            **as_data(self.overall),
            "aggregate": self.aggregate.to_dict(),
            "tasks": {task: as_data(contest) for task, contest in self.tasks.items()},
        }


def compared(
    records: Sequence[RunRecord],
    terms: Terms,
    remarks: Sequence[str] = (),
    curves: Mapping[str, Curve] | None = None,
) -> Contest | TaskContest:
    """One contest, or one for each task where the runs are of several; `remarks` say how they were read, and `curves`
    are of runs without a folder."""
    tasks = by_task(records, terms.against)
    if not tasks:
        contest = contest_of(records, terms, curves)
        return replace(contest, remarks=[*remarks, *contest.remarks])
    found = task_contest_of(tasks, terms, curves)
    return replace(found, overall=replace(found.overall, remarks=[*remarks, *found.overall.remarks]))


def by_task(records: Iterable[RunRecord], against: str) -> dict[str, list[RunRecord]]:
    """Studies, or tasks of a table, that hold the baseline and another arm; empty where there are not several."""
    found: dict[str, list[RunRecord]] = {}
    for record in records:
        if not counts(record):
            continue
        if record.place.study is None:
            return {}
        found.setdefault(record.place.study, []).append(record)
    names = [{arm_of(record) for record in runs} for runs in found.values()]
    return found if len(found) > 1 and all(against in arms and len(arms) > 1 for arms in names) else {}


def task_contest_of(
    tasks: Mapping[str, Sequence[RunRecord]], terms: Terms, curves: Mapping[str, Curve] | None = None
) -> TaskContest:
    """The margin is one of scores: it holds for the mean over tasks, and not for each."""
    contests = {task: contest_of(runs, replace(terms, margin=None), curves) for task, runs in sorted(tasks.items())}
    aggregate, scores = aggregate_of(contests)
    merged = [record for name, by in scores.items() for record in _merged(name, by, tasks)]
    overall = contest_of(merged, Terms(terms.against, f"{TASKS}/{METRIC}", "max", terms.margin, budget=terms.budget))
    remarks = [
        aggregate.normalisation,
        *(f"{task}: {remark}" for task, contest in contests.items() for remark in contest.remarks),
        *_left_out(contests, aggregate),
    ]
    return TaskContest(contests, replace(overall, remarks=[*overall.remarks, *remarks]), aggregate)


def _merged(name: str, scores: Scores, tasks: Mapping[str, Sequence[RunRecord]]) -> list[RunRecord]:
    """One run a seed that stands for those of all tasks: their mean score and their costs in sum."""
    runs = {
        (task, seed_of(record)): record for task, given in tasks.items() for record in given if arm_of(record) == name
    }
    seeds = next(iter(scores.values()))
    return [
        _one(name, seed, [by[seed] for by in scores.values()], [runs[task, seed] for task in scores]) for seed in seeds
    ]


def _one(name: str, seed: int, scores: Sequence[float | None], runs: Sequence[RunRecord]) -> RunRecord:
    measured = [score for score in scores if score is not None]
    whole = len(measured) == len(scores)
    parameters = [run.costs.get("totals", {}).get("parameters") for run in runs]
    known = [amount for amount in parameters if amount is not None]
    return RunRecord(
        id=f"{name}-{seed}",
        name=name,
        seed=seed,
        status="finished" if whole else "diverged",
        reason=None if whole else f"on {len(scores) - len(measured)} of {len(scores)} tasks",
        place=Place(None, name, seed),
        metrics={TASKS: {METRIC: fmean(measured)}} if whole else {},
        selection=Selection(METRIC, "max"),
        costs={"totals": {"parameters": fmean(known)}} if len(known) == len(runs) else {},
        progress=Progress(
            tokens=sum(run.progress.tokens for run in runs),
            flops=sum(run.progress.flops for run in runs),
            seconds=sum(run.progress.seconds for run in runs),
        ),
    )


def _left_out(contests: Mapping[str, Contest], aggregate: TaskAggregate) -> list[str]:
    everyone = {arm.name for contest in contests.values() for arm in contest.arms}
    without = sorted(everyone - {arm.name for arm in aggregate.arms})
    seeds = {seed for contest in contests.values() for arm in contest.arms for seed in arm.outcomes}
    apart = sorted(seeds - set(aggregate.seeds))
    told = [f"left out of the figures over tasks, for want of runs on all of them: {', '.join(without)}"]
    return [
        *(told if without else []),
        *(
            [f"seeds left out, since not all arms have them on all tasks: {', '.join(map(str, apart))}"]
            if apart
            else []
        ),
    ]
