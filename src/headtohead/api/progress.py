"""The progress of long work: a bar in a notebook and on a terminal. Without either, as under nohup or on a cluster, a
command writes a line now and then, and a function of Python nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING, NoReturn, Protocol

from headtohead.execution.monitor import RunStatus
from headtohead.progress_lines import ProgressLines

if TYPE_CHECKING:
    from tqdm import tqdm

Report = Callable[[list[RunStatus]], None]
ShowStep = Callable[[int, str], None]
"""Takes how many steps are done, and what is being done."""


_CELLS = 20
"""Signs of a bar."""


class _Bar(Protocol):
    """A bar is drawn again whenever something has changed."""

    def draw(self, share: float, text: str) -> None:
        """Draw the bar with the share that is done, and the text about it."""


class _TerminalBar:
    def __init__(self, bar: tqdm[NoReturn]) -> None:
        self._bar = bar

    def draw(self, share: float, text: str) -> None:
        self._bar.n = share
        self._bar.set_description_str(text)


class _NotebookBar:
    """An output of the cell that is written over, so that an exported notebook shows its last line alone."""

    def __init__(self) -> None:
        self._started = monotonic()
        self._output = import_module("IPython.display").display({"text/plain": ""}, raw=True, display_id=True)

    def draw(self, share: float, text: str) -> None:
        done = round(share * _CELLS)
        minutes, seconds = divmod(int(monotonic() - self._started), 60)
        line = f"{text} {'█' * done}{'░' * (_CELLS - done)} {minutes:02}:{seconds:02}"
        self._output.update({"text/plain": line}, raw=True)


@contextmanager
def _bar(*, leave: bool) -> Iterator[_Bar]:
    """Yield a bar for the terminal or the notebook; `leave` it where it is at the end."""
    if _in_notebook():
        yield _NotebookBar()
        return
    from tqdm import tqdm

    with tqdm(total=1.0, bar_format="{desc} {bar} {elapsed}", leave=leave) as bar:
        yield _TerminalBar(bar)


@contextmanager
def progress_of_steps(total: int) -> Iterator[ShowStep]:
    """Yield what shows how far work of so many steps has come."""
    if not _is_seen():
        yield ProgressLines(total).show
        return
    with _bar(leave=False) as bar:
        yield lambda done, doing: bar.draw(done / max(total, 1), f"{doing} {done}/{total}")


@contextmanager
def progress_of_runs(total: Callable[[list[RunStatus]], int], *, shown: bool = True) -> Iterator[Report]:
    """Yield what takes the standing of all runs and shows it; `total` is how many runs there will be."""
    if not (shown and _is_seen()):
        yield _ignore
        return
    with _bar(leave=True) as bar:

        def show(standings: list[RunStatus]) -> None:
            done = sum(standing.is_done for standing in standings)
            running = [standing.run.name for standing in standings if standing.status == "running"]
            whole = max(total(standings), 1)
            names = f", {' and '.join(running)}" if running else ""
            bar.draw(sum(standing.share for standing in standings) / whole, f"{done} of {whole} runs{names}")

        yield show


def _ignore(standings: list[RunStatus]) -> None:
    del standings


def _is_seen() -> bool:
    return sys.stderr.isatty() or _in_notebook()


def _in_notebook() -> bool:
    """A kernel has a class for its shell that no terminal has; IPython is not imported to find out."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"
