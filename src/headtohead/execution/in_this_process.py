"""Runs that only this process can make, since what they build was written in it: one after the other, without
workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headtohead.execution.claims.choice import claims_of
from headtohead.execution.monitor import Monitor, RunStatus
from headtohead.execution.run_spec import Replan, RunSpec, WorkPlan
from headtohead.execution.single_run import is_done, record_of, train_run

Report = Callable[[list[RunStatus]], None]


def run_here(again: Replan, report: Report, threads: int | None = None) -> None:
    """Train what is missing; raise KeyboardInterrupt where a run was interrupted, which keeps its checkpoint."""
    plan, runs = again()
    monitor = Monitor(plan, runs, again=again)
    tried: set[str] = set()
    report(monitor.update())
    while missing := [run for run in monitor.runs if run.id not in tried and not is_done(monitor.plan.run_folder(run))]:
        for run in missing:
            tried.add(run.id)
            _train(monitor.plan, run, threads)
            report(monitor.update())


def _train(plan: WorkPlan, run: RunSpec, threads: int | None) -> None:
    folder: Path = plan.run_folder(run)
    claim = claims_of(plan.folder).take(run.id)
    if claim is None:  # a worker elsewhere has it
        return
    try:
        train_run(run, folder, plan.budget_name, threads)
    finally:
        claim.release(is_done=is_done(folder))
    record = record_of(folder)
    if record is not None and record.status == "interrupted":
        raise KeyboardInterrupt
