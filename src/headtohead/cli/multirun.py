"""`h2h train --multirun`: a run for every combination, each in a process of its own; what fails takes nothing along."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headtohead.building.combining import combinations
from headtohead.building.errors import ConfigurationError
from headtohead.cli.arguments import configuration_text
from headtohead.cli.terminal import error_line, note, out, show_table
from headtohead.cli.working import INTERRUPTED, progress, take_launcher, worker_commands

if TYPE_CHECKING:
    from headtohead.studying.launcher import Ended, Launcher
    from headtohead.studying.multirun import Multirun
    from headtohead.tracking.record import RunRecord


def run_all(given: argparse.Namespace) -> int:
    """Exit code 1 where some combination made no run that finished."""
    from headtohead.studying.multirun import planned

    launcher = take_launcher(given)
    points = combinations(given.overrides, given.config_dir)
    if len(points) > 1 and not given.multirun:
        raise ConfigurationError(f"these overrides make {len(points)} runs: give --multirun too")
    multirun = planned(points, lambda point: _composed(given, point))
    if given.worker:
        return _work(given, multirun)
    if given.cfg:
        out("---\n".join(configuration_text(given, dict(job.config)) + "\n" for job in multirun.jobs).rstrip())
        return 1 if _tell_refused(multirun) else 0
    return _conducted(given, multirun, launcher)


def _composed(given: argparse.Namespace, overrides: Sequence[str]) -> Mapping[str, Any]:
    if given.from_run:
        from headtohead.building.rerunning import rerun

        return rerun(given.from_run, overrides, given.config_dir)
    from headtohead.building.configuration import compose_checked

    return compose_checked("train", overrides, given.config_dir)


def _work(given: argparse.Namespace, multirun: Multirun) -> int:
    from headtohead.studying.worker import Worker, import_all

    import_all()
    ended = Worker(multirun, multirun.jobs, threads=given.threads, parent=given.parent).work()
    return 0 if ended else INTERRUPTED


def _conducted(given: argparse.Namespace, multirun: Multirun, launcher: Launcher) -> int:
    from headtohead.studying.conducting import Watch, conduct, forget_failed

    multirun.folder.mkdir(parents=True, exist_ok=True)
    if given.retry:
        forget_failed(multirun, multirun.jobs)
    watch = Watch(multirun, multirun.jobs)
    missing = sum(not standing.is_done for standing in watch.look())
    runs = "1 run" if len(multirun.jobs) == 1 else f"{len(multirun.jobs)} runs"
    note(f"{runs}, {missing} of them to do; logs in {os.path.relpath(multirun.folder / 'logs')}")
    _tell_refused(multirun)
    commands = worker_commands(given, launcher, _command(given), multirun.folder, missing)
    try:
        with progress(len) as tell:
            ended = conduct(watch, launcher, commands, tell)
    except KeyboardInterrupt:
        note("interrupted; the same command goes on where it was")
        return INTERRUPTED
    return _told(multirun, ended)


def _command(given: argparse.Namespace) -> tuple[str, ...]:
    again = ("--from-run", given.from_run) if given.from_run else ()
    return ("train", "--multirun", *given.overrides, *again)


def _told(multirun: Multirun, ended: Sequence[Ended]) -> int:
    """The table of all runs, then everything that went wrong."""
    from headtohead.comparing.table import as_table, lines_of
    from headtohead.studying.running import record_of

    records = {job: record_of(multirun.run_folder(job)) for job in multirun.jobs}
    if begun := [record for record in records.values() if record is not None]:
        show_table(as_table(lines_of(begun)))
    for worker in ended:
        if worker.code:
            error_line(f"a worker ended with code {worker.code} ({worker.command.log}): {worker.last_words}")
    failed = {job: record for job, record in records.items() if record is None or record.status != "finished"}
    for job, record in failed.items():
        error_line(f"{job.name} {_trouble(record)}: h2h train {shlex.join(job.overrides)}")
    refused = _tell_refused(multirun)
    total = len(multirun.jobs) + len(multirun.refused)
    note(f"{len(records) - len(failed)} of {total} finished" + (", --retry begins failed ones anew" if failed else ""))
    return 1 if failed or refused else 0


def _trouble(record: RunRecord | None) -> str:
    if record is None:
        return "was not begun"
    where = "" if record.path is None else f", {os.path.relpath(record.path)}"
    return f"{record.status.replace('_', ' ')} ({record.reason}{where})"


def _tell_refused(multirun: Multirun) -> bool:
    for overrides, reason in multirun.refused.items():
        error_line(f"no run of {overrides}: {reason}")
    return bool(multirun.refused)
