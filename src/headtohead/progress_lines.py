"""Lines on standard error by which a command says how far long work has come where no terminal shows a bar, as under
nohup or on a cluster; a function of Python writes none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from time import monotonic

_SECONDS = 10.0
"""Seconds between two lines; work that is over before has none."""
_by_command: ContextVar[bool] = ContextVar("whether a command does the work", default=False)


@contextmanager
def written_by_command() -> Iterator[None]:
    """Let work within the context write its lines."""
    token = _by_command.set(True)
    try:
        yield
    finally:
        _by_command.reset(token)


class ProgressLines:
    """The lines of one piece of work, each some seconds after the one before."""

    def __init__(self, total: int, unit: str = "") -> None:
        self._total = f"{total:,} {unit}".rstrip()
        self._next = monotonic() + _SECONDS

    def show(self, done: int, doing: str, *, at_once: bool = False) -> None:
        """Write a line if one is due, or `at_once` before what reports nothing for long."""
        now = monotonic()
        if not _by_command.get() or sys.stderr.isatty() or (now < self._next and not at_once):
            return
        self._next = now + _SECONDS
        with suppress(OSError):  # a line that cannot be written is no reason to end the work
            sys.stderr.write(f"{doing} ({done:,} of {self._total})\n")
