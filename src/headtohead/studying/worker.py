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
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread

from headtohead.files.disk import OutOfDisk
from headtohead.files.leases import Lease, Leases
from headtohead.studying.cells import Cell
from headtohead.studying.running import FOUND_FULL, give_up, is_done, train_cell
from headtohead.studying.work import Planned, Stops, Work
from headtohead.tracking.stopping import end_early
from headtohead.tracking.store import RunFolder

TRIES = 2
"""A process that is killed without a word may have been unlucky once."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
"""The last two are how schedulers say that a job's time is almost up."""
_POLL_SECONDS = 0.1
_WAIT_SECONDS = 1.0
Given = tuple[Cell, Path, str | None, int | None]
Train = Callable[[Cell, Path, str | None, int | None], None]
"""A run, its folder, the budget it is under and the number of threads."""


class Worker:
    """Works until every run of its share is done, is done by others, or was tried often enough."""

    def __init__(
        self,
        plan: Work,
        cells: Sequence[Cell],
        *,
        threads: int | None = None,
        parent: int | None = None,
        train: Train = train_cell,
        leases: Leases | None = None,
        again: Planned | None = None,
        stops: Stops | None = None,
    ) -> None:
        self._plan, self._cells, self._threads, self._parent = plan, list(cells), threads, parent
        self._train, self._again, self._stops = train, again, stops
        self._leases = leases or Leases(plan.folder / "leases")
        self._tries: Counter[str] = Counter()
        self._stopped = False

    def work(self) -> bool:
        """Whether it came to the end, and was not stopped before."""
        for number in _SIGNALS:
            signal.signal(number, lambda *_: self.stop())
        while not self._is_over() and (self._has_work() or self._found_more()):
            for cell in self._cells:
                if (lease := self._leases.take(cell.id)) is not None:
                    self._do(cell, lease)
                    break
            else:
                time.sleep(_WAIT_SECONDS)  # whoever holds them may die
                self._found_more()
        return not self._stopped

    def stop(self) -> None:
        """The run at hand keeps a checkpoint; its next worker goes on from there."""
        self._stopped = True

    def _has_work(self) -> bool:
        self._cells = [cell for cell in self._cells if self._is_missing(cell)]
        return bool(self._cells)

    def _found_more(self) -> bool:
        """Whether how trials ended has made work."""
        if self._again is None or not self._plan.is_open:
            return False
        self._plan, cells = self._again()
        self._cells = list(cells)
        return self._has_work()

    def _is_over(self) -> bool:
        if self._parent is not None and os.getppid() != self._parent:
            self._stopped = True
        return self._stopped

    def _is_missing(self, cell: Cell) -> bool:
        return self._tries[cell.id] < TRIES and not is_done(self._plan.run_folder(cell))

    def _do(self, cell: Cell, lease: Lease) -> None:
        folder = self._plan.run_folder(cell)
        run = RunFolder(folder)
        if is_done(folder) or run.written_here():  # a dead worker's run ends by itself, and soon
            lease.give_back()
            time.sleep(_POLL_SECONDS)
            return
        run.give_up()
        self._tries[cell.id] += 1
        try:
            held = self._watch(cell, folder, lease)
        except OutOfDisk:
            lease.give_back()
            raise
        if held:
            if cell.trial is not None and self._tries[cell.id] == TRIES and not self._stopped:
                give_up(cell, folder, f"its process was killed {TRIES} times")
            lease.give_back()

    def _started(self, cell: Cell, folder: Path) -> tuple[BaseProcess, Connection]:
        fork = sys.platform == "linux"  # elsewhere system libraries do not bear it
        context = multiprocessing.get_context("fork") if fork else multiprocessing.get_context("spawn")
        theirs, ours = context.Pipe(duplex=False)
        log = self._plan.folder / "logs" / f"{cell.id}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        given = (cell, folder, self._plan.budget_name, self._threads)
        process = context.Process(target=_run, args=(self._train, given, log, theirs, ours))
        process.start()
        theirs.close()
        return process, ours

    def _watch(self, cell: Cell, folder: Path, lease: Lease) -> bool:
        """Whether the lease is still ours when the process has ended."""
        process, line = self._started(cell, folder)
        asked, held = False, True
        while process.is_alive():
            process.join(_POLL_SECONDS)
            held = lease.is_held()
            if not asked and (self._is_over() or not held or self._ended_early(cell, folder)):
                process.terminate()
                asked = True
        line.close()
        code = process.exitcode
        process.close()
        if code == FOUND_FULL:
            raise OutOfDisk(folder, ", as far as its run had come")
        return held

    def _ended_early(self, cell: Cell, folder: Path) -> bool:
        """The process is asked to end like any other, and keeps a checkpoint."""
        reason = None if self._stops is None else self._stops(cell, folder)
        if reason is not None:
            end_early(folder, reason)
        return reason is not None


def _run(train: Train, given: Given, log: Path, theirs: Connection, ours: Connection) -> None:
    """The process of one run."""
    ours.close()
    os.setsid()  # Ctrl-C is for the worker, which passes it on once
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with log.open("a", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    Thread(target=_end_with, args=(theirs,), daemon=True).start()
    train(*given)


def _end_with(line: Connection) -> None:
    """Without its worker nobody holds the lease: the run keeps a checkpoint and ends."""
    try:
        line.recv()
    except EOFError:
        os.kill(os.getpid(), signal.SIGTERM)


def import_all() -> None:
    """What every run needs, once."""
    import headtohead.building.build
    import headtohead.training.run  # noqa: F401
