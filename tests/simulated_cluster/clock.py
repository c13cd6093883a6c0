"""Simulated time: events in order, each of which may wait while others happen."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from greenlet import getcurrent, greenlet


class Clock:
    """The time of the cluster in seconds, and what happens at it. Every event has a stack of its own, so that one that
    waits goes on at its moment, however long those wait that began meanwhile."""

    def __init__(self) -> None:
        self.now = 0.0
        self.while_waiting: Callable[[], AbstractContextManager[None]] = nullcontext
        """Opened around each wait: what other events see meanwhile."""
        self._events: list[tuple[float, int, greenlet]] = []
        self._count = 0
        self._runner: greenlet | None = None
        """The stack of `run`, to which an event that waits or ends gives way."""

    def at(self, time: float, event: Callable[[], object]) -> None:
        """Let an event happen at a time, after those that were entered for the same time before."""
        self._enter(time, greenlet(event))

    def run(self, *, until: float) -> None:
        """Let everything happen until a time."""
        self._runner = getcurrent()
        while self._events and self._events[0][0] <= until:
            self.now, _, event = heapq.heappop(self._events)
            event.parent = self._runner
            event.switch()
        self.now = max(self.now, until)

    def pause(self, seconds: float) -> None:
        """Let others go on for some seconds in the middle of an event."""
        event = getcurrent()
        assert self._runner is not None and event is not self._runner, "only an event waits"
        self._enter(self.now + seconds, event)
        with self.while_waiting():
            self._runner.switch()

    def _enter(self, time: float, event: greenlet) -> None:
        self._count += 1
        heapq.heappush(self._events, (max(time, self.now), self._count, event))
