"""Many runs from the first to the last: workers are started and watched, what failed may be tried again. Runs that only
this process can make, since what they build was written in it, are made one after the other, without workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.config.run_config import RunConfig
from headtohead.execution.claims.choice import claims_of
from headtohead.execution.claims.run_claims import RunClaims
from headtohead.execution.launchers.launcher import Command, EndedCommand, Launcher
from headtohead.execution.run_spec import Replan, RunSpec, WorkPlan
from headtohead.execution.single_run import has_ended, is_done, record_of, train_run
from headtohead.records.keeping.changes import remove_folder

_POLL_SECONDS = 0.5
_POLL_SHARE = 9
"""The pause between polls as a multiple of what the last one took: polling takes a tenth of the time at most."""
RETRIED = ("failed", "out_of_memory")


@dataclass(frozen=True)
class RunStatus:
    """A run status says how far one run is, from 0 to 1 at its end."""

    run: RunSpec
    status: str
    share: float
    is_done: bool = False


class Monitor:
    """The standing of every run; one that is done is not looked at again, and more follow where the plan is open."""

    def __init__(self, plan: WorkPlan, runs: Sequence[RunSpec], again: Replan | None = None) -> None:
        self.plan, self.runs, self._again = plan, runs, again
        self._done: dict[RunSpec, RunStatus] = {}

    def update(self) -> list[RunStatus]:
        result = self._statuses()
        if self._again is not None and self.plan.is_open and all(current_status.is_done for current_status in result):
            self.plan, self.runs = self._again()
            result = self._statuses()
        return result

    def _statuses(self) -> list[RunStatus]:
        statuses = [self._done.get(run) or self._status_of(run) for run in self.runs]
        self._done = {current_status.run: current_status for current_status in statuses if current_status.is_done}
        return statuses

    def _status_of(self, run: RunSpec) -> RunStatus:
        folder = self.plan.run_folder(run)
        record = record_of(folder)
        if record is None:
            return RunStatus(run, "missing", 0.0)
        if has_ended(record, folder):
            return RunStatus(run, record.status, 1.0, is_done=True)
        return RunStatus(run, record.status, record.progress.step / max(1, RunConfig(run.config).max_steps))


def run_to_the_end(
    watch: Monitor, launcher: Launcher, commands: Sequence[Command], report: Callable[[list[RunStatus]], None]
) -> list[EndedCommand]:
    """Wait until every command has ended; commands end by themselves when nothing is left for them to do."""
    ended: list[EndedCommand] = []
    try:
        launcher.submit(commands)
        while launcher.is_busy:
            begun = time.monotonic()
            ended += launcher.ended()
            report(watch.update())
            if launcher.is_busy:
                time.sleep(max(_POLL_SECONDS, _POLL_SHARE * (time.monotonic() - begun)))
    finally:
        launcher.stop()
    return ended


def clear_failed(plan: WorkPlan, runs: Sequence[RunSpec]) -> None:
    """Delete failed runs, so that workers start them again; those that are running stay."""
    claims = claims_of(plan.folder)
    for run in runs:
        folder = plan.run_folder(run)
        record = record_of(folder)
        if record is None or record.status not in RETRIED:
            continue
        if (claim := claims.take(run.id)) is not None:
            claims.forget(run.id)  # first: what is killed here leaves a failed run, and no folder without a record
            remove_folder(folder)
            claim.release()


Report = Callable[[list[RunStatus]], None]


def run_here(again: Replan, report: Report, threads: int | None = None) -> None:
    """Train what is missing; raise KeyboardInterrupt where a run was interrupted, which keeps its checkpoint."""
    plan, runs = again()
    monitor, claims = Monitor(plan, runs, again=again), claims_of(plan.folder)
    tried: set[str] = set()
    report(monitor.update())
    while missing := [run for run in monitor.runs if run.id not in tried and not is_done(monitor.plan.run_folder(run))]:
        for run in missing:
            tried.add(run.id)
            _train(monitor.plan, run, claims, threads)
            report(monitor.update())


def _train(plan: WorkPlan, run: RunSpec, claims: RunClaims, threads: int | None) -> None:
    folder: Path = plan.run_folder(run)
    if (claim := claims.take(run.id)) is None:  # a worker elsewhere has it
        return
    try:
        train_run(run, folder, plan.budget_name, threads)
    finally:
        claim.release(is_done=is_done(folder))
    record = record_of(folder)
    if record is not None and record.status == "interrupted":
        raise KeyboardInterrupt
