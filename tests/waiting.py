"""Waiting for a state, however long a loaded machine takes to come to it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 1000.0
"""Seconds that a wait may take before something is wrong: far more than any needs, so that only a wait without end
fails; the run of all tests ends a test after 1200. Processes that stay until they are ended sleep for longer."""
State = TypeVar("State")


def until(state: Callable[[], State], *, otherwise: str | Callable[[], str] = "it never came to that") -> State:
    """Return the state once it is true; `otherwise` says what there is instead."""
    end = time.monotonic() + PATIENCE
    while not (result := state()):
        assert time.monotonic() < end, otherwise() if callable(otherwise) else otherwise
        time.sleep(0.02)
    return result
