"""Local workers of a command are forked from it: it has the plan, and the imports that a program would make again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headtohead import cli

if TYPE_CHECKING:
    from headtohead.execution.launchers.worker_commands import Workers
    from headtohead.execution.launchers.worker_forks import Work
    from headtohead.execution.run_spec import RunSpec, WorkPlan


def set_threads(workers: Workers) -> None:
    """Set the threads of each run before NumPy and PyTorch, with which workers are forked, read their number."""
    from headtohead.execution.launchers.launcher import environment

    if cli.is_own_process:
        os.environ |= environment(workers.threads)


def fork_workers(workers: Workers, plan: WorkPlan, runs: Sequence[RunSpec], work: Work, threads: int | None) -> None:
    """Fork what local workers are forked from, before this process computes anything: where planning has started
    threads beside those that there were, programs are started instead. So they are where launcher.runs_per_device
    decides how many threads each has, since libraries have read another number."""
    from headtohead.execution.launchers.launcher import LocalProcesses
    from headtohead.execution.launchers.worker_forks import WorkerForks, threads_here
    from headtohead.execution.single_run import is_done
    from headtohead.execution.worker import import_all

    launcher = workers.launcher
    if not cli.is_own_process or threads is None or threads_here() != threads:
        return
    has_own_threads = launcher.runs_per_device is None or workers.are_threads_chosen
    is_done_already = not plan.is_open and all(is_done(plan.run_folder(run)) for run in runs)
    if not isinstance(launcher, LocalProcesses) or not has_own_threads or is_done_already:
        return
    import_all(runs)
    launcher.forks = WorkerForks(work)
