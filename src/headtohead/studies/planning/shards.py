"""A share of a study for a machine that sees no other's runs: which runs are its own, and when it has done them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.config.errors import ConfigurationError
from headtohead.errors import UsageError
from headtohead.execution.run_spec import RunSpec, WorkPlan
from headtohead.execution.single_run import is_done
from headtohead.studies.planning.study_plan import StudyPlan

Shard = tuple[int, int]
"""The number of a share, from 1, and the number of shares."""


@dataclass(frozen=True)
class ShardPlan:
    """The plan of a study as the workers of one share follow it."""

    plan: StudyPlan
    runs: tuple[RunSpec, ...]
    """Those of the share."""
    is_open: bool
    """Whether more runs may follow from those of the share: nobody waits here for what other machines do."""

    @property
    def folder(self) -> Path:
        return self.plan.folder

    @property
    def budget_name(self) -> str | None:
        return self.plan.budget_name

    def run_folder(self, run: RunSpec) -> Path:
        return self.plan.run_folder(run)


def as_shard(numbers: Sequence[int]) -> Shard:
    """Return which share of how many is meant."""
    if len(numbers) != 2:
        raise UsageError(no_share("/".join(map(str, numbers))))
    return numbers[0], numbers[1]


def no_share(text: str) -> str:
    """Return the refusal of a share that there is not."""
    return f"--shard {text} is refused: give which share of how many, as --shard 1/2 and --shard 2/2"


def work_of(plan_now: Callable[[], StudyPlan], shard: Shard | None) -> tuple[WorkPlan, Sequence[RunSpec]]:
    """Return the plan as workers follow it, and their runs: those of a share, or all."""
    if shard is None:
        plan = plan_now()
        return plan, plan.runs
    of_share = shard_plan(plan_now, *shard)
    return of_share, of_share.runs


def shard_plan(plan_now: Callable[[], StudyPlan], index: int, count: int) -> ShardPlan:
    """Plan a share; it is closed where a plan that was made after all its runs had ended has no others for it."""
    plan = plan_now()
    runs = shard_of(plan, index, count)
    while plan.is_open and all(is_done(plan.run_folder(run)) for run in runs):
        known, plan = {run.id for run in runs}, plan_now()
        runs = shard_of(plan, index, count)
        if all(run.id in known for run in runs):
            return ShardPlan(plan, tuple(runs), is_open=False)
    return ShardPlan(plan, tuple(runs), plan.is_open)


def shard_of(plan: StudyPlan, index: int, count: int) -> list[RunSpec]:
    """Return the i-th of n shares, i from 1: every n-th seed with all its arms, and all its shares of the budget.

    A tuned arm stays in one share, with its trials: nobody else could tell which of them won.
    """
    study = plan.study
    if study.foundations:
        raise ConfigurationError(
            f"study {study.name}: --shard is refused, since arms start from runs that other shares would make: "
            "share the folder, and start workers on it by the same command"
        )
    arms = list(study.arms)
    if plan.tunings:
        return [run for run in plan.runs if arms.index(run.arm) % count == index - 1]
    return [run for run in plan.runs if study.seeds.index(run.seed) % count == index - 1]
