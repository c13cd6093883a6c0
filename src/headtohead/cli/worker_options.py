"""Define what commands with workers share: their options, the workers' own command, and the display of progress."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headtohead.cli.options import Parser, add_trust, within
from headtohead.cli.terminal import note
from headtohead.ranges import Threads

if TYPE_CHECKING:
    from headtohead.execution.launchers.launcher import Command, Launcher
    from headtohead.execution.monitor import RunStatus
    from headtohead.execution.run_spec import WorkPlan

PROGRAM = (sys.executable, "-c", "import sys; from headtohead.cli import main; sys.exit(main())")
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
    from headtohead.execution.launchers.launcher_choice import launcher_choice

    return bool(launcher_choice(overrides).of_launcher)


def take_launcher(options: argparse.Namespace) -> Launcher:
    """Remove the overrides that choose the launcher and return it; the number of threads follows from it."""
    from headtohead.execution.launchers.launcher_choice import launcher_choice

    result = launcher_choice(options.overrides)
    launcher = result.make(options.config_dir)
    options.overrides, options.workers = list(result.of_runs), result.workers or options.workers
    options.threads = options.threads or launcher.threads(options.workers)
    return launcher


def worker_commands(
    options: argparse.Namespace,
    launcher: Launcher,
    arguments: Sequence[str],
    plan: WorkPlan,
    *,
    devices: int,
    most: int | None = None,
) -> list[Command]:
    """Return the same command for every worker, except for its log below the plan's folder; there are no more workers
    than `most`, and no run takes more than `devices`."""
    from headtohead.execution.launchers.launcher import Command

    where = ("--config-dir", options.config_dir) if options.config_dir else ()
    parent = ("--parent", str(os.getpid())) if launcher.is_parent else ()
    trusted = (word for name in options.trust for word in ("--trust", name))
    whole = (*PROGRAM, *arguments, "--worker", "--threads", str(options.threads), *parent, *where, *trusted)
    number, call = options.workers if most is None else min(most, options.workers), secrets.token_hex(4)
    logs = [plan.folder / "logs" / f"worker-{call}-{worker}.log" for worker in range(number)]
    return [Command(whole, log, options.threads, devices) for log in logs]


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
