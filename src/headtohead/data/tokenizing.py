"""Long work on texts shared out to several processes, in order, with a bar that moves."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait

import numpy as np

from headtohead.data.bars import Tell, bar
from headtohead.data.contracts import DataError
from headtohead.data.storage import Ragged, Table, ragged

Work = Callable[[Sequence[str]], Table]
"""From texts to columns of a row each; it must be picklable."""
PROCESSES = "HEADTOHEAD_PROCESSES"
_PIECE = 2**19
"""Characters that a process gets at once."""
_WORTH_IT = 16 * _PIECE
"""Characters of all texts together from which on processes pay for their start."""
_WAITING = 3
"""Pieces per process that are under way, so that memory stays small."""


def shared_out(work: Work, texts: Sequence[str], *, doing: str) -> Table:
    """What `work` gives for all texts, in their order, made by as many processes as there are processors."""
    size, processes = sum(map(len, texts)), num_processes()
    if size < _WORTH_IT:
        return work(texts)
    with bar(doing, size, "characters") as tell:
        made = _made_here(work, texts, tell) if processes == 1 else _made(work, texts, processes, tell)
        return _joined(list(made))


def num_processes() -> int:
    """HEADTOHEAD_PROCESSES, else as many as this process may use processors."""
    chosen = os.environ.get(PROCESSES)
    if chosen is None:
        return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    if not chosen.isdigit() or int(chosen) < 1:
        raise DataError(f"{PROCESSES}={chosen} is no number of processes: give 1 or more, or unset it.")
    return int(chosen)


def _made_here(work: Work, texts: Sequence[str], tell: Tell) -> Iterator[Table]:
    for piece in pieces_of(texts, _PIECE):
        yield work(piece)
        tell(sum(map(len, piece)))


def _made(work: Work, texts: Sequence[str], processes: int, tell: Tell) -> Iterator[Table]:
    with ProcessPoolExecutor(processes, initializer=_begin, initargs=(work,)) as pool:
        under_way: deque[tuple[Future[Table], int]] = deque()
        try:
            for piece in pieces_of(texts, _PIECE):
                under_way.append((pool.submit(_work_on, piece), sum(map(len, piece))))
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


def pieces_of(texts: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Neighbouring texts of about `size` characters together."""
    start = length = 0
    for place, text in enumerate(texts, 1):
        length += len(text)
        if length >= size:
            yield texts[start:place]
            start, length = place, 0
    if start < len(texts):
        yield texts[start:]


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


def _work_on(texts: Sequence[str]) -> Table:
    return _WORK[0](texts)


def _joined(tables: Sequence[Table]) -> Table:
    """One below the other; every column holds rows of any length."""
    joined = {}
    for column in tables[0]:
        parts = [ragged(table, column) for table in tables]
        lengths = np.concatenate([part.lengths for part in parts])
        joined[column] = Ragged.of_lengths(np.concatenate([part.values for part in parts]), lengths)
    return joined
