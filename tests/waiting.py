"""Waiting for a state, however long a loaded machine takes to come to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import psutil

PATIENCE = 1000.0
"""Seconds that a wait may take before something is wrong: far more than any needs, so that only a wait without end
fails; the run of all tests ends a test after 1200. Processes that stay until they are ended sleep for longer."""
State = TypeVar("State")


def until(
    state: Callable[[], State], *, otherwise: str | Callable[[], str] = "it never came to that", every: float = 0.02
) -> State:
    """Return the state once it is true; `otherwise` says what there is instead; it is looked at `every` so
    many seconds."""
    end = time.monotonic() + PATIENCE
    while not (result := state()):
        assert time.monotonic() < end, otherwise() if callable(otherwise) else otherwise
        time.sleep(every)
    return result


def is_gone(process: psutil.Process) -> bool:
    """Return whether it has ended, whoever has still to ask for its exit code."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
