"""Long work on texts shared out to several processes, in order, with a bar that moves."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from typing import Any, TypeVar

import numpy as np

from headtohead.data.bars import Tell, bar
from headtohead.data.contracts import DataError
from headtohead.data.storage import Column, Ragged, Table

Sample = TypeVar("Sample")
Work = Callable[[Sequence[Any]], Table]
"""From texts, or samples of texts, to columns of a row each; it must be picklable."""
Size = Callable[[Any], int]
"""Of a sample, in characters."""
PROCESSES = "HEADTOHEAD_PROCESSES"
_PIECE = 2**19
"""Characters that a process gets at once."""
_WORTH_IT = 16 * _PIECE
"""Characters of all texts together from which on processes pay for their start."""
_WAITING = 3
"""Pieces per process that are under way, so that memory stays small."""


def shared_out(work: Work, samples: Iterable[Any], *, doing: str, size_of: Size = len) -> Table:
    """What `work` gives for all samples, in their order, made by as many processes as there are processors. They are
    walked through twice, and no more of them are in memory than are worked on."""
    size, processes = sum(map(size_of, samples)), num_processes()
    if size < _WORTH_IT:
        return work(list(samples))
    pieces = pieces_of(samples, _PIECE, size_of)
    with bar(doing, size, "characters") as tell:
        return _joined(_made_here(work, pieces, tell) if processes == 1 else _made(work, pieces, processes, tell))


def num_processes() -> int:
    """HEADTOHEAD_PROCESSES, else as many as this process may use processors."""
    chosen = os.environ.get(PROCESSES)
    if chosen is None:
        return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    if not chosen.isdigit() or int(chosen) < 1:
        raise DataError(f"{PROCESSES}={chosen} is no number of processes: give 1 or more, or unset it.")
    return int(chosen)


Pieces = Iterator[tuple[Sequence[Any], int]]


def _made_here(work: Work, pieces: Pieces, tell: Tell) -> Iterator[Table]:
    for piece, size in pieces:
        yield work(piece)
        tell(size)


def _made(work: Work, pieces: Pieces, processes: int, tell: Tell) -> Iterator[Table]:
    with ProcessPoolExecutor(processes, initializer=_begin, initargs=(work,)) as pool:
        under_way: deque[tuple[Future[Table], int]] = deque()
        try:
            for piece, size in pieces:
                under_way.append((pool.submit(_work_on, piece), size))
                if len(under_way) > _WAITING * processes:
                    yield _taken(*under_way.popleft(), tell)
            while under_way:
                yield _taken(*under_way.popleft(), tell)
        except BrokenProcessPool as error:
            raise DataError(
                f"a process that read texts was killed, often for want of memory: set {PROCESSES} to fewer than "
                f"{processes}."
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)


def _taken(future: Future[Table], size: int, tell: Tell) -> Table:
    made = future.result()
    tell(size)
    return made


def pieces_of(samples: Iterable[Sample], size: int, size_of: Size = len) -> Iterator[tuple[list[Sample], int]]:
    """Neighbouring samples of about `size` characters together, and how many these have."""
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
"""Of a process of the pool: sent once, not with each piece."""


def _begin(work: Work) -> None:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # threads of a library do not survive a fork, and processes are many
    _WORK[:] = [work]
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A parent that is killed cannot say so."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


def _work_on(samples: Sequence[Any]) -> Table:
    return _WORK[0](samples)


def _joined(tables: Iterable[Table]) -> Table:
    """One below the other, as they come; none has two axes."""
    joined: dict[str, _Below] = {}
    for table in tables:
        for name, column in table.items():
            joined.setdefault(name, _Below()).add(column)
    return {name: column.whole() for name, column in joined.items()}


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

    def whole(self) -> Column:
        if not self._is_ragged:
            return self._grown()
        return Ragged.of_lengths(self._grown(), np.frombuffer(self._lengths, np.int64))

    def _grown(self) -> np.ndarray:
        return np.frombuffer(self._values, self._type)
