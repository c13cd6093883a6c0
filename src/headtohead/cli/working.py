"""What commands with workers share: their options, the workers' own command, and how far the runs are."""

from __future__ import annotations

import argparse
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headtohead.cli.arguments import Parser, add_trust, within
from headtohead.cli.terminal import note
from headtohead.ranges import Threads

if TYPE_CHECKING:
    from headtohead.studying.conducting import Standing
    from headtohead.studying.launcher import Command, Launcher

PROGRAM = (sys.executable, "-c", "import sys; from headtohead.cli import main; sys.exit(main())")
INTERRUPTED = 130


def add_workers(to: Parser) -> None:
    add_processes(to)
    to.add_argument("--config-dir", metavar="DIR", help="a folder with YAML files of your own, by group")
    add_trust(to)


def add_processes(to: Parser) -> None:
    """For commands that have --config-dir already."""
    to.add_argument("--workers", type=within(Threads), default=1, metavar="N", help="runs at once; default 1")
    to.add_argument(
        "--threads",
        type=within(Threads),
        metavar="N",
        help="of the processor for each run; default: all, shared by workers",
    )
    to.add_argument("--worker", action="store_true", help="only do runs, for a scheduler: no plan, no report")
    to.add_argument("--parent", type=int, help=argparse.SUPPRESS)


def names_launcher(overrides: Sequence[str]) -> bool:
    from headtohead.studying.launching.choosing import asked

    return bool(asked(overrides).of_launcher)


def take_launcher(given: argparse.Namespace) -> Launcher:
    """What overrides say of where runs are trained is taken out of them; threads follow from it."""
    from headtohead.studying.launching.choosing import asked

    found = asked(given.overrides)
    launcher = found.make(given.config_dir)
    given.overrides, given.workers = list(found.of_runs), found.workers or given.workers
    given.threads = given.threads or launcher.threads(given.workers)
    return launcher


def worker_commands(
    given: argparse.Namespace, launcher: Launcher, arguments: Sequence[str], folder: Path, most: int | None = None
) -> list[Command]:
    """For every worker the same command, but for its log below `folder`; no more workers than `most`."""
    from headtohead.studying.launcher import Command

    where = ("--config-dir", given.config_dir) if given.config_dir else ()
    parent = ("--parent", str(os.getpid())) if launcher.is_parent else ()
    trusted = (word for name in given.trust for word in ("--trust", name))
    whole = (*PROGRAM, *arguments, "--worker", "--threads", str(given.threads), *parent, *where, *trusted)
    number, call = given.workers if most is None else min(most, given.workers), secrets.token_hex(4)
    logs = [folder / "logs" / f"worker-{call}-{worker}.log" for worker in range(number)]
    return [Command(whole, log, given.threads) for log in logs]


@contextmanager
def progress(total: Callable[[list[Standing]], int]) -> Iterator[Callable[[list[Standing]], None]]:
    """A bar on a terminal, else a line for every run that ends; `total` is how many runs there will be."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    known: set[str] | None = None
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    quiet = not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), disable=quiet, transient=True) as shown:
        bar = shown.add_task("")

        def tell(standings: list[Standing]) -> None:
            nonlocal known
            done = [standing for standing in standings if standing.is_done]
            running = [standing.cell.name for standing in standings if standing.status == "running"]
            words = f"{len(done)} of {total(standings)} runs" + (f", {' and '.join(running)}" if running else "")
            shares = sum(standing.share for standing in standings)
            shown.update(bar, total=total(standings), completed=shares, description=words)
            for standing in done:
                if quiet and known is not None and standing.cell.id not in known:
                    status = standing.status.replace("_", " ")
                    note(f"{standing.cell.name}: {status} ({len(done)} of {total(standings)})")
            known = {standing.cell.id for standing in done}

        yield tell
