"""A worker does what is missing of a study, one run after another, each in a process of its own.

Many may work on one study, here or on other machines that share its folder: leases say who does what. A run's process
is forked from this one, which has imported what training needs and done nothing with it: no run starts with what
another left behind, and none waits for imports.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread

from headtohead.execution.gpus import GpuPool, GpuShare
from headtohead.execution.run_spec import Replan, RunSpec, StopReason, WorkPlan
from headtohead.execution.single_run import DISK_FULL_BEFORE_START, give_up, is_done, train_run
from headtohead.files.disk_operations import OutOfDisk
from headtohead.files.leases import Lease, Leases
from headtohead.records.early_end import end_early
from headtohead.records.run_folder import RunFolder

TRIES = 2
"""A process that is killed without a word may have been unlucky once."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
"""The last two are how schedulers say that a job's time is almost up."""
_POLL_SECONDS = 0.1
_WAIT_SECONDS = 1.0
WorkerArguments = tuple[RunSpec, Path, str | None, int | None]
Train = Callable[[RunSpec, Path, str | None, int | None], None]
"""A run, its folder, the budget it is under and the number of threads."""


class Worker:
    """Works until every run of its share is done, is done by others, or was tried often enough."""

    def __init__(
        self,
        plan: WorkPlan,
        runs: Sequence[RunSpec],
        *,
        threads: int | None = None,
        parent: int | None = None,
        train: Train = train_run,
        leases: Leases | None = None,
        again: Replan | None = None,
        stops: StopReason | None = None,
    ) -> None:
        self._plan, self._runs, self._threads, self._parent = plan, list(runs), threads, parent
        self._train, self._again, self._stops = train, again, stops
        self._leases = leases or Leases(plan.folder / "leases")
        self._gpus = GpuPool(self._leases, shared_by=parent or os.getpid())
        self._tries: Counter[str] = Counter()
        self._stopped = False

    def work(self) -> bool:
        """Work until nothing is left, and return whether that was reached rather than a stop."""
        for number in _SIGNALS:
            signal.signal(number, lambda *_: self.stop())
        while not self._is_over() and (self._has_work() or self._planned_more()):
            for run in self._runs:
                if self._claim_run(run):
                    break
            else:
                time.sleep(_WAIT_SECONDS)  # whoever holds them may die
                self._planned_more()
        return not self._stopped

    def _claim_run(self, run: RunSpec) -> bool:
        """Do the run, unless another does it or its GPUs are with others."""
        if (share := self._gpus.take(run.config)) is None:
            return False
        try:
            lease = self._leases.take(run.id)
            if lease is not None:
                self._do(run, lease, share)
        finally:
            share.release()
        return lease is not None

    def stop(self) -> None:
        """The run at hand keeps a checkpoint; its next worker resumes from there."""
        self._stopped = True

    def _has_work(self) -> bool:
        self._runs = [run for run in self._runs if self._is_missing(run)]
        return bool(self._runs)

    def _planned_more(self) -> bool:
        """Return whether finished trials have led to more runs."""
        if self._again is None or not self._plan.is_open:
            return False
        self._plan, runs = self._again()
        self._runs = list(runs)
        return self._has_work()

    def _is_over(self) -> bool:
        if self._parent is not None and os.getppid() != self._parent:
            self._stopped = True
        return self._stopped

    def _is_missing(self, run: RunSpec) -> bool:
        return self._tries[run.id] < TRIES and not is_done(self._plan.run_folder(run))

    def _do(self, run: RunSpec, lease: Lease, share: GpuShare) -> None:
        folder = self._plan.run_folder(run)
        run_folder = RunFolder(folder)
        if is_done(folder) or run_folder.written_here():  # a dead worker's run ends by itself, and soon
            lease.release()
            time.sleep(_POLL_SECONDS)
            return
        run_folder.mark_abandoned()
        self._tries[run.id] += 1
        try:
            still_held = self._watch(run, folder, lease, share)
        except OutOfDisk:
            lease.release()
            raise
        if still_held:
            if run.trial is not None and self._tries[run.id] == TRIES and not self._stopped:
                give_up(run, folder, f"its process was killed {TRIES} times")
            lease.release()

    def _started(self, run: RunSpec, folder: Path, share: GpuShare) -> tuple[BaseProcess, Connection]:
        fork = sys.platform == "linux"  # elsewhere system libraries do not bear it
        context = multiprocessing.get_context("fork") if fork else multiprocessing.get_context("spawn")
        theirs, ours = context.Pipe(duplex=False)
        log = self._plan.folder / "logs" / f"{run.id}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        arguments = (run, folder, self._plan.budget_name, self._threads)
        process = context.Process(
            target=_run_process, args=(self._train, arguments, log, theirs, ours, share.environment)
        )
        process.start()
        theirs.close()
        return process, ours

    def _watch(self, run: RunSpec, folder: Path, lease: Lease, share: GpuShare) -> bool:
        """Watch the process, and return whether the lease is still ours when it has ended."""
        process, line = self._started(run, folder, share)
        stop_sent, still_held = False, True
        while process.is_alive():
            process.join(_POLL_SECONDS)
            still_held = lease.is_held()
            if not stop_sent and (self._is_over() or not still_held or self._ended_early(run, folder)):
                process.terminate()
                stop_sent = True
        line.close()
        code = process.exitcode
        process.close()
        if code == DISK_FULL_BEFORE_START:
            raise OutOfDisk(folder, ", after part of its run")
        return still_held

    def _ended_early(self, run: RunSpec, folder: Path) -> bool:
        """The process is asked to end like any other, and keeps a checkpoint."""
        reason = None if self._stops is None else self._stops(run, folder)
        if reason is not None:
            end_early(folder, reason)
        return reason is not None


def _run_process(
    train: Train, arguments: WorkerArguments, log: Path, theirs: Connection, ours: Connection, variables: dict[str, str]
) -> None:
    """The process of one run, the first of those that it is spread over."""
    ours.close()
    os.environ |= variables
    os.setsid()  # Ctrl-C is for the worker, which passes it on once
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with log.open("a", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    Thread(target=_end_with, args=(theirs,), daemon=True).start()
    train(*arguments)


def _end_with(line: Connection) -> None:
    """End when the worker dies: without it nobody holds the lease, so the run saves a checkpoint and ends."""
    try:
        line.recv()
    except EOFError:
        os.kill(os.getpid(), signal.SIGTERM)


def import_all() -> None:
    """Import, once, what every run needs."""
    import headtohead.config.build
    import headtohead.training.run  # noqa: F401
