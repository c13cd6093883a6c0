"""Simulated time: events in order, and pauses within which other events happen."""

from __future__ import annotations

import heapq
from collections.abc import Callable

_DEEPEST = 12
"""Pauses within pauses; a pause beyond that takes no time."""


class Clock:
    """The time of the cluster in seconds, and what happens at it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._depth = 0

    def at(self, time: float, event: Callable[[], None]) -> None:
        """Let an event happen at a time, after those that were entered for the same time before."""
        self._count += 1
        heapq.heappush(self._events, (max(time, self.now), self._count, event))

    def run(self, *, until: float) -> None:
        """Let everything happen until a time."""
        while self._events and self._events[0][0] <= until:
            time, _, event = heapq.heappop(self._events)
            self.now = max(self.now, time)
            event()
        self.now = max(self.now, until)

    def pause(self, seconds: float) -> None:
        """Let others go on for some seconds in the middle of an event."""
        if self._depth >= _DEEPEST:
            return
        self._depth += 1
        try:
            self.run(until=self.now + seconds)
        finally:
            self._depth -= 1

    @property
    def is_idle(self) -> bool:
        """Return whether nothing will happen any more."""
        return not self._events
