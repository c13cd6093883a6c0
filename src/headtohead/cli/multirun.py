"""`h2h train --multirun`: a run for every combination, each in a process of its own; what fails takes nothing along."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from headtohead.cli.forked_workers import fork_workers, set_threads
from headtohead.cli.options import INTERRUPTED, composed, configuration_text, progress, take_workers
from headtohead.cli.terminal import error_line, note, out, show_table
from headtohead.config.compose.overrides import override_combinations
from headtohead.config.errors import ConfigurationError

if TYPE_CHECKING:
    from headtohead.execution.launchers.launcher import EndedCommand
    from headtohead.execution.launchers.worker_commands import Workers
    from headtohead.execution.multirun import Multirun


def run_all(options: argparse.Namespace) -> int:
    """Exit code 1 where some combination made no run that finished."""
    from headtohead.execution.launchers.launcher import LocalProcesses
    from headtohead.execution.launchers.worker_forks import threads_here
    from headtohead.execution.multirun import planned_jobs, without_impossible_layers, without_missing_data

    workers = take_workers(options)
    set_threads(workers)
    threads = threads_here()
    points = override_combinations(options.overrides, options.config_dir)
    if len(points) > 1 and not options.multirun:
        raise ConfigurationError(f"these overrides make {len(points)} runs: give --multirun too")
    multirun = planned_jobs(points, lambda point: _composed(options, point))
    if options.worker:
        return _work(options, multirun)
    if options.cfg:
        out("---\n".join(configuration_text(options, dict(job.config)) + "\n" for job in multirun.jobs).rstrip())
        return 1 if _report_refused(multirun) else 0
    if isinstance(workers.launcher, LocalProcesses):  # other machines may have other files
        multirun = without_missing_data(multirun)
    multirun = without_impossible_layers(multirun)
    return _run_workers(options, multirun, workers, threads)


def _composed(options: argparse.Namespace, overrides: Sequence[str]) -> Mapping[str, object]:
    return composed(argparse.Namespace(**{**vars(options), "overrides": overrides}))


def _work(options: argparse.Namespace, multirun: Multirun) -> int:
    from headtohead.execution.worker import import_all

    import_all(multirun.jobs)
    return _worked(multirun, options.threads, options.parent)


def _worked(multirun: Multirun, threads: int | None, parent: int | None, command: int | None = None) -> int:
    from headtohead.execution.worker import Worker

    worker = Worker(multirun, multirun.jobs, threads=threads, parent=parent, command=command)
    return 0 if worker.work() else INTERRUPTED


def _run_workers(options: argparse.Namespace, multirun: Multirun, workers: Workers, threads: int | None) -> int:
    from headtohead.execution.multirun_workers import conduct, prepare, worker_words

    missing = prepare(multirun, retry=options.retry)
    runs = "1 run" if len(multirun.jobs) == 1 else f"{len(multirun.jobs)} runs"
    note(f"{runs}, {missing} to run; logs in {os.path.relpath(multirun.folder / 'logs')}")
    _report_refused(multirun)
    fork_workers(workers, multirun, multirun.jobs, partial(_worked, multirun), threads)
    try:
        with progress(len) as show_progress:
            ended = conduct(multirun, workers, worker_words(options.overrides, options.from_run), show_progress)
    except KeyboardInterrupt:
        note("interrupted; the same command resumes it")
        return INTERRUPTED
    return _summary(multirun, ended)


def _summary(multirun: Multirun, ended: Sequence[EndedCommand]) -> int:
    """The table of all runs, then everything that went wrong."""
    from headtohead.api.many_runs import outcome
    from headtohead.comparison.tables.run_table import as_table, lines_of

    made = outcome(multirun, ended)
    if started := [record for record in made.records.values() if record is not None]:
        show_table(as_table(lines_of(started)))
    for sentence in made.errors:
        error_line(sentence)
    for job, why in made.failures.items():
        error_line(f"{job.name} {why}: h2h train {shlex.join(job.overrides)}")
    refused = _report_refused(multirun)
    done, total = len(made.records) - len(made.failures), len(multirun.jobs) + len(multirun.refused)
    note(f"{done} of {total} finished" + (", --retry restarts failed ones" if made.failures else ""))
    return 1 if made.failures or refused else 0


def _report_refused(multirun: Multirun) -> bool:
    for overrides, reason in multirun.refused.items():
        error_line(f"refused {overrides}: {reason}")
    return bool(multirun.refused)
