"""Ctrl-C and SIGTERM: the first lets the step end and keeps a checkpoint, the second stops at once."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from headtohead.tracking.agent import words_of_a_stop
from headtohead.training.outcomes import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_log = logging.getLogger(__name__)


class StopRequest:
    """Whether somebody asked the run to stop, and what is done about it."""

    def __init__(self) -> None:
        self.reason = "asked to stop"
        self._ask: Callable[[], None] | None = None
        self._asked = False
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
        name = signal.Signals(number).name
        self.reason = words_of_a_stop(name) or f"stopped by {name}"
        if self._ask is None or self._asked:
            raise Interrupted(self.reason)
        self._asked = True
        self._ask()
        _log.info("%s: ending this step and keeping a checkpoint; once more stops at once", self.reason)
