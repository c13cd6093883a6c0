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
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread

from headtohead import lazy_packages
from headtohead.config.run_config import RunConfig
from headtohead.execution.claims.choice import claims_of
from headtohead.execution.claims.run_claims import RunClaims
from headtohead.execution.gpus import GpuPool, GpuShare
from headtohead.execution.run_attempts import exit_signal
from headtohead.execution.run_queue import Job, RunQueue, idle_seconds
from headtohead.execution.run_spec import Replan, RunSpec, StopReason, WorkPlan
from headtohead.execution.session_priority import keep_priority
from headtohead.execution.single_run import DISK_FULL_BEFORE_START, train_run
from headtohead.files.disk_operations import OutOfDisk
from headtohead.records.early_stopping_marker import end_early
from headtohead.records.environment import read_unchanging
from headtohead.records.run_folder import log_file

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
"""The last two are how schedulers say that a job's time is almost up."""
_POLL_SECONDS = 0.1
_CHECK_SECONDS = 1.0
"""The time between two looks at whether another worker has taken the run over: a thousand workers ask one disk."""
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
        command: int | None = None,
        train: Train = train_run,
        claims: RunClaims | None = None,
        again: Replan | None = None,
        stops: StopReason | None = None,
    ) -> None:
        """`parent` is the process that this one ends with; `command` the one whose workers share GPUs, those that were
        forked and those that are programs: the parent where it is not given, this process where neither is."""
        self._plan, self._threads, self._parent = plan, threads, parent
        self._train, self._stops = train, stops
        self._queue = RunQueue(plan, runs, claims or claims_of(plan.folder), again=again)
        self._gpus = GpuPool(plan.folder, shared_by=command or parent or os.getpid())
        self._stopped = False

    def work(self) -> bool:
        """Work until nothing is left, and return whether that was reached rather than a stop."""
        for number in _SIGNALS:
            signal.signal(number, lambda *_: self.stop())
        idle_since: float | None = None
        while not self._is_over() and (self._queue.has_work or self._queue.plan_more() or self._queue.awaits_more):
            if self._do_one(is_idle=idle_since is not None):
                idle_since = None
                continue
            now = time.monotonic()
            idle_since = now if idle_since is None else idle_since
            self._sleep(idle_seconds(idle_since, now))  # whoever holds them may die
            self._queue.plan_more()
        return not self._stopped

    def stop(self) -> None:
        """The run at hand keeps a checkpoint; its next worker resumes from there."""
        self._stopped = True

    def _do_one(self, *, is_idle: bool) -> bool:
        """Do a run, unless others do all that are left, or have the GPUs that it takes."""
        for runs in self._queue.by_devices():
            if (share := self._gpus.take(next(iter(runs.values())).config)) is None:
                continue
            try:
                job = self._queue.take(runs, is_idle=is_idle)
                if job is not None:
                    self._do(job, share)
                    return True
            finally:
                share.release()
        return False

    def _sleep(self, seconds: float) -> None:
        """Wait, unless the worker is to end."""
        end = time.monotonic() + seconds
        while not self._is_over() and time.monotonic() < end:
            time.sleep(min(_POLL_SECONDS, seconds))

    def _is_over(self) -> bool:
        if self._parent is not None and os.getppid() != self._parent:
            self._stopped = True
        return self._stopped

    def _do(self, job: Job, share: GpuShare) -> None:
        if not self._queue.begin(job):
            time.sleep(_POLL_SECONDS)
            return
        try:
            code = self._watch(job, share)
        except OutOfDisk:
            self._queue.end(job)
            raise
        if job.claim.is_held():
            self._queue.end(job, death=None if self._stopped else _death(code))

    def _started(self, run: RunSpec, folder: Path, share: GpuShare) -> tuple[BaseProcess, Connection]:
        fork = sys.platform == "linux"  # elsewhere system libraries do not bear it
        context = multiprocessing.get_context("fork") if fork else multiprocessing.get_context("spawn")
        theirs, ours = context.Pipe(duplex=False)
        log = log_file(self._plan.folder, run.id)
        log.parent.mkdir(parents=True, exist_ok=True)
        arguments = (run, folder, self._plan.budget_name, self._threads)
        process = context.Process(
            target=_run_process, args=(self._train, arguments, log, theirs, ours, share.environment)
        )
        process.start()
        theirs.close()
        return process, ours

    def _watch(self, job: Job, share: GpuShare) -> int | None:
        """Watch the process to its end, and return its exit code."""
        run, folder = job.run, job.folder
        process, line = self._started(run, folder, share)
        stop_sent, still_held, next_check = False, True, 0.0
        while process.is_alive():
            process.join(_POLL_SECONDS)
            if time.monotonic() >= next_check:
                still_held = job.claim.is_held()
                next_check = time.monotonic() + _CHECK_SECONDS
            if not stop_sent and (self._is_over() or not still_held or self._ended_early(run, folder)):
                process.terminate()
                stop_sent = True
                if self._is_over():
                    self._queue.note_stop(job)
        line.close()
        code = process.exitcode
        process.close()
        if code == DISK_FULL_BEFORE_START:
            raise OutOfDisk(folder, ", after part of its run")
        return code

    def _ended_early(self, run: RunSpec, folder: Path) -> bool:
        """The process is asked to end like any other, and keeps a checkpoint."""
        reason = None if self._stops is None else self._stops(run, folder)
        if reason is not None:
            end_early(folder, reason)
        return reason is not None


def _death(code: int | None) -> str:
    """Return how a process ended that left no result."""
    return exit_signal(-code) if code is not None and code < 0 else f"exit code {code}"


def _run_process(
    train: Train, arguments: WorkerArguments, log: Path, theirs: Connection, ours: Connection, variables: dict[str, str]
) -> None:
    """The process of one run, the first of those that it is spread over."""
    ours.close()
    os.environ |= variables
    os.setsid()  # Ctrl-C is for the worker, which passes it on once
    keep_priority()
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


def import_all(runs: Iterable[RunSpec]) -> None:
    """Import, once, what every run needs, and the modules of ours that the configurations of these runs name; pyarrow
    starts a thread as it is imported, and is left to the runs."""
    import tokenizers  # noqa: F401
    import torch._inductor.config  # Lightning asks torch for deterministic algorithms, which reads it
    import torch.utils.serialization

    import headtohead.config.build
    import headtohead.training.run  # noqa: F401
    from headtohead.config.instantiate import locate_own

    read_unchanging()
    for run in runs:
        locate_own(run.config)
        if RunConfig(run.config).compiles:
            import torch._dynamo

            lazy_packages.run(torch._dynamo)  # a second in each run that compiles
