"""Long work on texts shared out to several processes, in order, with a bar that moves."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import Any, TypeVar

import numpy as np

from headtohead.data.cache.arrow_columns import Column, Ragged, Table
from headtohead.data.data_source import DataError
from headtohead.progress_lines import ProgressLines

ReportProgress = Callable[[int], None]
"""A function that is called with how much more is done."""
_BAR_STYLE = 400
"""The most times that a progress bar moves: work may be reported in millions of small pieces."""
_drawn = threading.Lock()
"""A lock by which only the outer one of nested bars is drawn."""


@contextmanager
def progress_bar(doing: str, size: int, unit: str = "rows", *, then: str | None = None) -> Iterator[ReportProgress]:
    """Show a progress bar on a terminal, or lines of a command without one, and yield the function that advances it.
    `then` names what follows all of it, and is shown for as long as that takes."""
    if not _drawn.acquire(blocking=False):
        yield lambda _: None
        return
    try:
        with (_shown if sys.stderr.isatty() else _written)(doing, size, unit, then) as report:
            yield report
    finally:
        _drawn.release()


@contextmanager
def _written(doing: str, size: int, unit: str, then: str | None) -> Iterator[ReportProgress]:
    done, lines = 0, ProgressLines(size, unit)

    def report(more: int) -> None:
        nonlocal done
        done += more
        is_over = then is not None and done >= size
        lines.show(done, f"{doing}: {then}" if is_over else doing, at_once=is_over)

    yield report


@contextmanager
def _shown(doing: str, size: int, unit: str, then: str | None) -> Iterator[ReportProgress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TextColumn("{task.fields[facts]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    done, drawn, started = 0, 0, time.perf_counter()
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(doing, total=size, facts=f"{short(0)}/{short(size)} {unit}")

        def report(more: int) -> None:
            nonlocal done, drawn
            done += more
            if done - drawn < size / _BAR_STYLE and done < size:
                return
            drawn = done
            is_over = then is not None and done >= size
            rate = done / max(time.perf_counter() - started, 1e-3)
            facts = f"{short(done)}/{short(size)} {unit}" + ("" if is_over else f", {short(rate)}/s")
            words = f"{doing}: {then}" if is_over else doing
            shown.update(task, completed=done, facts=facts, description=words)
            if is_over:
                shown.update(task, total=None)

        yield report


def short(number: float) -> str:
    """Format a number briefly: 12.3M, 4.5k, 678."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f}{letter}"
    return f"{number:.0f}"


Sample = TypeVar("Sample")
Work = Callable[[Sequence[Any]], Table]
"""A function from texts, or samples of texts, to columns of a row each; it must be picklable."""
Size = Callable[[Any], int]
"""The size of a sample, in characters."""
PROCESSES = "HEADTOHEAD_PROCESSES"
_PIECE = 2**19
"""Characters that a process gets at once."""
_WORTH_IT = 16 * _PIECE
"""Characters of all texts together from which on processes pay for their start."""
_WAITING = 3
"""Pieces per process that are under way, so that memory stays small."""


def parallel_map(work: Work, samples: Iterable[object], *, doing: str, size_of: Size = len) -> Table:
    """Return what `work` returns for all samples, in their order, made by as many processes as there are processors.
    The samples are iterated twice, and only those in work are in memory."""
    size, processes = sum(map(size_of, samples)), num_processes()
    if size < _WORTH_IT:
        return work(list(samples))
    pieces = pieces_of(samples, _PIECE, size_of)
    with progress_bar(doing, size, "characters") as report:
        return _joined(_made_here(work, pieces, report) if processes == 1 else _made(work, pieces, processes, report))


def num_processes() -> int:
    """Return HEADTOHEAD_PROCESSES, else the number of processors that this process may use."""
    chosen = os.environ.get(PROCESSES)
    if chosen is None:
        return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    if not chosen.isdecimal() or int(chosen) < 1:
        raise DataError(f"{PROCESSES}={chosen} is not a number of processes: give 1 or more, or unset it.")
    return int(chosen)


Pieces = Iterator[tuple[Sequence[Any], int]]


def _made_here(work: Work, pieces: Pieces, report: ReportProgress) -> Iterator[Table]:
    for piece, size in pieces:
        yield work(piece)
        report(size)


def _made(work: Work, pieces: Pieces, processes: int, report: ReportProgress) -> Iterator[Table]:
    with ProcessPoolExecutor(processes, initializer=_begin, initargs=(work,)) as pool:
        under_way: deque[tuple[Future[Table], int]] = deque()
        try:
            for piece, size in pieces:
                under_way.append((pool.submit(_work_on, piece), size))
                if len(under_way) > _WAITING * processes:
                    yield _taken(*under_way.popleft(), report)
            while under_way:
                yield _taken(*under_way.popleft(), report)
        except BrokenProcessPool as error:
            raise DataError(
                f"a process that read texts was killed, often for want of memory: set {PROCESSES} to fewer than "
                f"{processes}."
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _taken(future: Future[Table], size: int, report: ReportProgress) -> Table:
    made = future.result()
    report(size)
    return made


def pieces_of(samples: Iterable[Sample], size: int, size_of: Size = len) -> Iterator[tuple[list[Sample], int]]:
    """Yield neighbouring samples of about `size` characters together, and how many these have."""
    piece: list[Sample] = []
    length = 0
    for sample in samples:
        piece.append(sample)
        length += size_of(sample)
        if length >= size:
            yield piece, length
            piece, length = [], 0
    if piece:
        yield piece, length


_WORK: list[Work] = []
"""The work of a process of the pool: sent once, not with each piece."""


def _begin(work: Work) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # threads of a library do not survive a fork, and processes are many
    _WORK[:] = [work]
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when its parent dies, since a parent that is killed cannot say so."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _work_on(samples: Sequence[object]) -> Table:
    return _WORK[0](samples)


def _joined(tables: Iterable[Table]) -> Table:
    """Concatenate tables as they come; no column has two axes."""
    joined: dict[str, _Below] = {}
    for table in tables:
        for name, column in table.items():
            joined.setdefault(name, _Below()).add(column)
    return {name: column.joined() for name, column in joined.items()}


class _Below:
    """A column that grows, without a second copy of it at its end."""

    def __init__(self) -> None:
        self._values, self._lengths, self._type = bytearray(), bytearray(), np.dtype(np.bool_)
        self._is_ragged = False

    def add(self, column: Column) -> None:
        values = column.values if isinstance(column, Ragged) else column
        wider = np.promote_types(self._type, values.dtype)
        if wider != self._type:
            self._values, self._type = bytearray(self._grown().astype(wider).data), wider
        self._values += values.astype(wider).data
        if isinstance(column, Ragged):
            self._is_ragged = True
            self._lengths += column.lengths.astype(np.int64).data

    def joined(self) -> Column:
        if not self._is_ragged:
            return self._grown()
        return Ragged.of_lengths(self._grown(), np.frombuffer(self._lengths, np.int64))

    def _grown(self) -> np.ndarray:
        return np.frombuffer(self._values, self._type)
