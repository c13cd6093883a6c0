"""The workers of many runs by one command: what is missing is counted, and done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headtohead.execution.launchers.launcher import EndedCommand
from headtohead.execution.launchers.worker_commands import Workers
from headtohead.execution.monitor import Monitor, Report, clear_failed, run_to_the_end
from headtohead.execution.multirun import Multirun


def worker_words(overrides: Sequence[str], from_run: str | Path | None) -> tuple[str, ...]:
    """Return the words by which a worker of this program works on the same runs."""
    again = ("--from-run", str(from_run)) if from_run else ()
    return ("train", "--multirun", *overrides, *again)


def prepare(multirun: Multirun, *, retry: bool) -> int:
    """Make the folder of leases and logs, on request remove what failed, and return how many runs are missing."""
    multirun.folder.mkdir(parents=True, exist_ok=True)
    if retry:
        clear_failed(multirun, multirun.jobs)
    return _num_missing(Monitor(multirun, multirun.jobs))


def conduct(multirun: Multirun, workers: Workers, words: Sequence[str], report: Report) -> list[EndedCommand]:
    """Do what is missing; raise KeyboardInterrupt where somebody stops it, and what is done is kept."""
    monitor = Monitor(multirun, multirun.jobs)
    commands = workers.commands(words, multirun, multirun.jobs, most=_num_missing(monitor))
    return run_to_the_end(monitor, workers.launcher, commands, report)


def _num_missing(monitor: Monitor) -> int:
    return sum(not status.is_done for status in monitor.update())
