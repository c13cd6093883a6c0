"""The progress of long work: a bar in a notebook and on a terminal, nothing where neither is there to see it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headtohead.execution.monitor import RunStatus

Report = Callable[[list[RunStatus]], None]
ShowStep = Callable[[int, str], None]
"""Takes how many steps are done, and what is being done."""


@contextmanager
def progress_of_steps(total: int) -> Iterator[ShowStep]:
    """Yield what shows how far work of so many steps has come."""
    if not _is_seen():
        yield _ignore_step
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, bar_format="{desc} {bar} {n}/{total} {elapsed}", leave=False) as bar:

        def show(done: int, doing: str) -> None:
            bar.n = done
            bar.set_description_str(doing)

        yield show


@contextmanager
def progress_of_runs(total: Callable[[list[RunStatus]], int], *, shown: bool = True) -> Iterator[Report]:
    """Yield what takes the standing of all runs and shows it; `total` is how many runs there will be."""
    if not (shown and _is_seen()):
        yield _ignore
        return
    from tqdm.auto import tqdm

    with tqdm(total=1.0, bar_format="{desc} {bar} {elapsed}") as bar:

        def show(standings: list[RunStatus]) -> None:
            done = sum(standing.is_done for standing in standings)
            running = [standing.run.name for standing in standings if standing.status == "running"]
            bar.total = total(standings)
            bar.n = sum(standing.share for standing in standings)
            bar.set_description_str(f"{done} of {bar.total} runs" + (f", {' and '.join(running)}" if running else ""))

        yield show


def _ignore(standings: list[RunStatus]) -> None:
    del standings


def _ignore_step(done: int, doing: str) -> None:
    del done, doing


def _is_seen() -> bool:
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    """A kernel has a class for its shell that no terminal has; IPython is not imported to find out."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"
