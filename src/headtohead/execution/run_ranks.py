"""The processes of one run over several devices of this machine: started together, and never outliving the first."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Event, Thread

_PATIENCE_SECONDS = 60.0
"""The time that processes have to end after one of them has; then they are killed."""
Train = Callable[[], object]


@contextmanager
def other_processes(count: int, name: str, train: Train) -> Iterator[None]:
    """Make this process the first of `count`, which exchange numbers by torch's process groups; the others call `train`
    meanwhile. The variables are torchrun's, so that Lightning starts no further ones."""
    if count == 1:
        yield
        return
    from torch._C._distributed_c10d import TCPStore

    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    started = [_started(context, rank, train) for rank in range(1, count)]
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # forked threads would not live
    variables = {
        "TORCHELASTIC_RUN_ID": name, "TORCHELASTIC_USE_AGENT_STORE": "True", "WORLD_SIZE": str(count),
        "LOCAL_WORLD_SIZE": str(count), "GROUP_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port),
    }  # fmt: skip
    ended = Event()
    Thread(target=_end_after, args=([process for process, _ in started], ended), daemon=True).start()
    try:
        for rank, (_, line) in enumerate(started, 1):
            line.send({**variables, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        with _as_rank({**variables, "RANK": "0", "LOCAL_RANK": "0"}):
            yield
    except BaseException:
        for process, _ in started:
            process.terminate()
        raise
    finally:
        ended.set()
        for process, line in started:
            process.join(_PATIENCE_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()
            line.close()


def _started(context: multiprocessing.context.BaseContext, rank: int, train: Train) -> tuple[BaseProcess, Connection]:
    theirs, ours = context.Pipe(duplex=False)
    process = context.Process(target=_take_part, args=(rank, theirs, ours, train))  # type: ignore[attr-defined]
    process.start()
    theirs.close()
    return process, ours


def _end_after(others: Sequence[BaseProcess], ended: Event) -> None:
    """Kill this process where another died before they were connected: nothing would tell it, and it would wait."""
    wait([process.sentinel for process in others])
    if not ended.wait(_PATIENCE_SECONDS):
        os.kill(os.getpid(), signal.SIGKILL)


def _take_part(rank: int, theirs: Connection, ours: Connection, train: Train) -> None:
    """Train as one of the processes that are not the first."""
    ours.close()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        variables: Mapping[str, str] = theirs.recv()
    except EOFError:  # the first one is gone
        return
    Thread(target=_end_with, args=(theirs,), daemon=True, name=f"rank {rank}").start()
    with _as_rank(variables):
        train()


def _end_with(line: Connection) -> None:
    try:
        line.recv()
    except EOFError:
        os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _as_rank(variables: Mapping[str, str]) -> Iterator[None]:
    """Give this process its number; Lightning, which reads it when it is imported, is told again."""
    from lightning_fabric.utilities.rank_zero import rank_zero_only

    before = {name: os.environ.get(name) for name in variables}
    os.environ |= variables
    known = rank_zero_only.rank  # type: ignore[attr-defined]
    rank_zero_only.rank = int(variables["RANK"])  # type: ignore[attr-defined]
    try:
        yield
    finally:
        rank_zero_only.rank = known  # type: ignore[attr-defined]
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
