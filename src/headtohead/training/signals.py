"""Ctrl-C, SIGTERM and a scheduler's SIGUSR1 and SIGUSR2: the first lets the step end and keeps a checkpoint, a second
stops at once."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from headtohead.tracking.agent import words_of_a_stop
from headtohead.training.outcomes import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
_ONE_REQUEST_SECONDS = 3.0
"""A scheduler signals all processes of a job, and a worker among them passes it on to its run: that is asked once."""
_log = logging.getLogger(__name__)


class StopRequest:
    """Whether somebody asked the run to stop, and what is done about it."""

    def __init__(self) -> None:
        self.reason = "asked to stop"
        self._ask: Callable[[], None] | None = None
        self._asked_at: float | None = None
        self._previous: dict[int, Any] = {}

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals inside; only a program's main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._previous = {number: signal.getsignal(number) for number in _SIGNALS}
        self.listen()
        try:
            yield
        finally:
            for number, handler in self._previous.items():
                signal.signal(number, handler)
            self._previous = {}

    def listen(self) -> None:
        """Take the signals back: Lightning takes them when training starts, and stops without a checkpoint."""
        for number in self._previous:
            signal.signal(number, self._handle)

    @contextmanager
    def gentle(self, ask: Callable[[], None]) -> Iterator[None]:
        """Inside, a first signal calls `ask`; outside, it raises Interrupted on the spot."""
        self._ask = ask
        try:
            yield
        finally:
            self._ask = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        now, name = time.monotonic(), signal.Signals(number).name
        if self._asked_at is not None and number != signal.SIGINT and now - self._asked_at < _ONE_REQUEST_SECONDS:
            return
        self.reason = words_of_a_stop(name) or f"stopped by {name}"
        if self._ask is None or self._asked_at is not None:
            raise Interrupted(self.reason)
        self._asked_at = now
        self._ask()
        _log.info("%s: ending this step and keeping a checkpoint; once more stops at once", self.reason)
