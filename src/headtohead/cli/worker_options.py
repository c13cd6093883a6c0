"""Define what commands with workers share: their options, the workers' own command, and the display of progress."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headtohead.cli.options import Parser, add_trust, within
from headtohead.cli.terminal import note
from headtohead.ranges import Threads

if TYPE_CHECKING:
    from headtohead.execution.launchers.worker_commands import Workers
    from headtohead.execution.monitor import RunStatus

INTERRUPTED = 130


def add_workers(to: Parser) -> None:
    add_processes(to)
    to.add_argument("--config-dir", metavar="DIR", help="a folder with YAML files of your own, by group")
    add_trust(to)


def add_processes(to: Parser) -> None:
    """Add the options of processes to a command that has --config-dir already."""
    to.add_argument("--workers", type=within(Threads), default=1, metavar="N", help="runs at once; default 1")
    to.add_argument(
        "--threads",
        type=within(Threads),
        metavar="N",
        help="of the processor for each run; default: all, shared by workers",
    )
    to.add_argument("--worker", action="store_true", help="only do runs, for a scheduler: no plan, no report")
    to.add_argument("--parent", type=int, help=argparse.SUPPRESS)


def has_launcher(overrides: Sequence[str]) -> bool:
    from headtohead.execution.launchers.worker_commands import launcher_choice

    return bool(launcher_choice(overrides).of_launcher)


def take_workers(options: argparse.Namespace) -> Workers:
    """Remove the overrides that choose the launcher, and return the workers that it starts."""
    from headtohead.execution.launchers.worker_commands import workers_for

    workers, options.overrides = workers_for(
        options.overrides, options.workers, options.threads, options.config_dir, options.trust
    )
    options.workers, options.threads = workers.number, workers.threads
    return workers


@contextmanager
def progress(total: Callable[[list[RunStatus]], int]) -> Iterator[Callable[[list[RunStatus]], None]]:
    """Show a bar on a terminal, else a line for every run that ends; `total` is how many runs there will be."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    known: set[str] | None = None
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    quiet = not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), disable=quiet, transient=True) as shown:
        bar = shown.add_task("")

        def show(statuses: list[RunStatus]) -> None:
            nonlocal known
            done = [run_status for run_status in statuses if run_status.is_done]
            running = [run_status.run.name for run_status in statuses if run_status.status == "running"]
            words = f"{len(done)} of {total(statuses)} runs" + (f", {' and '.join(running)}" if running else "")
            shares = sum(run_status.share for run_status in statuses)
            shown.update(bar, total=total(statuses), completed=shares, description=words)
            for run_status in done:
                if quiet and known is not None and run_status.run.id not in known:
                    text = run_status.status.replace("_", " ")
                    note(f"{run_status.run.name}: {text} ({len(done)} of {total(statuses)})")
            known = {run_status.run.id for run_status in done}

        yield show
