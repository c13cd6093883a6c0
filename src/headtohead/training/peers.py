"""The processes of one run, each known to the others, so that those which are left can say which has died."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict
from typing import Any

from headtohead.files.liveness import Owner

_LOST_WORDS = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "gloo/transport", "NCCL error")
_PATIENCE = 2.0
"""Seconds until a process whose connection is gone is seen to have ended."""
_peers: list[Owner] = []


def introduce(store: Any, rank: int, size: int) -> None:
    """Learn which processes the others are; all of them must call it."""
    store.set(f"owner_{rank}", json.dumps(asdict(Owner.this_process())))
    _peers[:] = [Owner(**json.loads(store.get(f"owner_{other}"))) for other in range(size)]


def lost_process(error: BaseException) -> str | None:
    """Say in a sentence which process has died, where an error says that the connection to one is gone."""
    if len(_peers) < 2 or not isinstance(error, RuntimeError) or not any(words in str(error) for words in _LOST_WORDS):
        return None
    _leave_time_to_write()
    dead = _dead()
    if not dead:
        return f"the connection to another of the run's {len(_peers)} processes is gone: resume the run"
    named = " and ".join(f"{rank} (pid {_peers[rank].pid})" for rank in dead)
    return (
        f"of the run's {len(_peers)} processes, rank {named} died: killed, out of the machine's memory, or by an error "
        "that its own output shows; resume the run"
    )


def _leave_time_to_write() -> None:
    """Hold back Lightning, which kills this process within five seconds of the death of another: it is about to end by
    itself, and has the record to write first."""
    for thread in threading.enumerate():
        if thread.name == "child-process-observer":
            vars(thread)["_run"] = lambda: True


def _dead() -> list[int]:
    deadline = time.monotonic() + _PATIENCE
    while True:
        dead = [rank for rank, owner in enumerate(_peers) if owner.lives() is False]
        if dead or time.monotonic() > deadline:
            return dead
        time.sleep(_PATIENCE / 20)
