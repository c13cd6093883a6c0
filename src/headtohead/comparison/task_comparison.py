"""Runs of several tasks: a contest for each, and one over all of them, seed by seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from headtohead.comparison.analyses.across_tasks import Scores, TaskAggregate, aggregate_of
from headtohead.comparison.arms import counts, short_names
from headtohead.comparison.comparability import NotComparable, seed_of
from headtohead.comparison.comparison import Comparison, comparison_of
from headtohead.comparison.contrasts import ComparisonSpec, Verdict
from headtohead.comparison.metric_words import TASKS
from headtohead.comparison.planned_runs import without_older_questions
from headtohead.comparison.tables.comparison_rows import as_data
from headtohead.records.metrics_file import Curve
from headtohead.records.record import CheckpointSelection, Progress, RunRecord, StudyPosition

METRIC = "normalised_score"


@dataclass(frozen=True)
class TaskComparison:
    """A task comparison compares the arms on each task, and over all tasks."""

    tasks: dict[str, Comparison]
    """The comparison on each task, by its name."""
    overall: Comparison
    """The verdict on the mean score over the tasks, seed by seed."""
    aggregate: TaskAggregate
    """The scores over all tasks: means, probabilities of beating the baseline, profiles."""

    @property
    def verdicts(self) -> list[Verdict]:
        """Return the verdicts over all tasks."""
        return self.overall.verdicts

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and lists, for JSON."""
        return {
            **as_data(self.overall),
            "aggregate": self.aggregate.to_dict(),
            "tasks": {task: as_data(comparison) for task, comparison in self.tasks.items()},
        }


def compared(
    records: Sequence[RunRecord],
    spec: ComparisonSpec,
    remarks: Sequence[str] = (),
    curves: Mapping[str, Curve] | None = None,
) -> Comparison | TaskComparison:
    """Return one contest, or one for each task where the runs are of several; `remarks` say how they were read, and
    `curves` are of runs without a folder."""
    records, older = without_older_questions(records)
    try:
        return _compared(records, spec, [*remarks, *filter(None, [older])], curves)
    except NotComparable as refusal:
        raise refusal if older is None else NotComparable(f"{refusal}; {older}") from None


def _compared(
    records: Sequence[RunRecord], spec: ComparisonSpec, remarks: Sequence[str], curves: Mapping[str, Curve] | None
) -> Comparison | TaskComparison:
    spec = replace(spec, against=_arm_named(spec.against, records))
    tasks = by_task(records, spec.against)
    if not tasks:
        comparison = comparison_of(records, spec, curves)
        return replace(comparison, remarks=[*remarks, *comparison.remarks])
    result = task_comparison_of(tasks, spec, curves)
    return replace(result, overall=replace(result.overall, remarks=[*remarks, *result.overall.remarks]))


def _arm_named(name: str, records: Sequence[RunRecord]) -> str:
    """Return the arm of the runs of a name, as lists of runs show it, or of a short name, as tables of LaTeX do, where
    no arm itself has it."""
    arms = sorted({record.arm for record in records})
    own = {record.arm for record in records if record.name == name}
    own = own or {arm for arm, short in short_names(arms).items() if short == name}
    return own.pop() if name not in arms and len(own) == 1 else name


def by_task(records: Iterable[RunRecord], against: str) -> dict[str, list[RunRecord]]:
    """Studies, or tasks of a table, that hold the baseline and another arm; empty where there are not several."""
    tasks: dict[str, list[RunRecord]] = {}
    for record in records:
        if not counts(record):
            continue
        if record.place.study is None:
            return {}
        tasks.setdefault(record.place.study, []).append(record)
    names = [{record.arm for record in runs} for runs in tasks.values()]
    return tasks if len(tasks) > 1 and all(against in arms and len(arms) > 1 for arms in names) else {}


def task_comparison_of(
    tasks: Mapping[str, Sequence[RunRecord]], spec: ComparisonSpec, curves: Mapping[str, Curve] | None = None
) -> TaskComparison:
    """The margin is one of scores: it holds for the mean over tasks, and not for each."""
    comparisons = {
        task: comparison_of(runs, replace(spec, margin=None), curves) for task, runs in sorted(tasks.items())
    }
    aggregate, scores = aggregate_of(comparisons)
    merged = [record for name, by in scores.items() for record in _merged(name, by, tasks)]
    overall = comparison_of(
        merged, ComparisonSpec(spec.against, f"{TASKS}/{METRIC}", "max", spec.margin, budget=spec.budget)
    )
    remarks = [
        aggregate.normalisation,
        *(f"{task}: {remark}" for task, comparison in comparisons.items() for remark in comparison.remarks),
        *_left_out(comparisons, aggregate),
    ]
    return TaskComparison(comparisons, replace(overall, remarks=[*overall.remarks, *remarks]), aggregate)


def _merged(name: str, scores: Scores, tasks: Mapping[str, Sequence[RunRecord]]) -> list[RunRecord]:
    """One run a seed that stands for those of all tasks: their mean score and their costs in sum."""
    runs = {
        (task, seed_of(record)): record for task, records in tasks.items() for record in records if record.arm == name
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
        place=StudyPosition(None, name, seed),
        metrics={TASKS: {METRIC: fmean(measured)}} if whole else {},
        selection=CheckpointSelection(METRIC, "max"),
        costs={"totals": {"parameters": fmean(known)}} if len(known) == len(runs) else {},
        progress=Progress(
            tokens=sum(run.progress.tokens for run in runs),
            flops=sum(run.progress.flops for run in runs),
            seconds=sum(run.progress.seconds for run in runs),
        ),
    )


def _left_out(comparisons: Mapping[str, Comparison], aggregate: TaskAggregate) -> list[str]:
    everyone = {arm.name for comparison in comparisons.values() for arm in comparison.arms}
    without = sorted(everyone - {arm.name for arm in aggregate.arms})
    seeds = {seed for comparison in comparisons.values() for arm in comparison.arms for seed in arm.outcomes}
    apart = sorted(seeds - set(aggregate.seeds))
    sentences = [f"not in the figures over tasks, since some tasks have no runs of theirs: {', '.join(without)}"]
    return [
        *(sentences if without else []),
        *(
            [f"seeds not used, since not all arms have them on all tasks: {', '.join(map(str, apart))}"]
            if apart
            else []
        ),
    ]
