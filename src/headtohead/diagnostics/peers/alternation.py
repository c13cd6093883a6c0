"""Two pieces of work timed in turn (A B A B), so that whatever else the machine does slows both alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Work = Callable[[], object]
LEAST_ROUNDS = 3


@dataclass(frozen=True)
class Quartiles:
    """The lower quartile, the median and the upper quartile of some measurements."""

    lower: float
    median: float
    upper: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Quartiles:
        """Return the quartiles of at least one value."""
        if len(values) == 1:
            return cls(values[0], values[0], values[0])
        return cls(*statistics.quantiles(values, n=4, method="inclusive"))


@dataclass(frozen=True)
class PairedTimes:
    """Seconds of processor time of ours and of theirs, round by round."""

    ours: list[float]
    theirs: list[float]

    @property
    def ratios(self) -> Quartiles:
        """Return the peer's time over ours in the same round: above 1 ours is faster."""
        return Quartiles.of([theirs / ours for ours, theirs in zip(self.ours, self.theirs, strict=True)])


def alternate(ours: Work, theirs: Work, *, rounds: int, seconds: float) -> PairedTimes:
    """Return the times of both over `rounds` rounds, or over those that fit into `seconds` after one run of each to
    warm up. Work that takes little is repeated in each round, equally often on both sides."""
    slowest = max(_processor_seconds(ours, 1), _processor_seconds(theirs, 1))
    repeats = max(1, min(100, int(_SHORTEST / max(slowest, 1e-6))))
    times = PairedTimes([], [])
    began = time.perf_counter()
    while len(times.ours) < rounds:
        times.ours.append(_processor_seconds(ours, repeats))
        times.theirs.append(_processor_seconds(theirs, repeats))
        if len(times.ours) >= LEAST_ROUNDS and time.perf_counter() - began > seconds:
            break
    return times


_SHORTEST = 0.05
"""Seconds below which one measurement says little."""


def _processor_seconds(work: Work, repeats: int) -> float:
    started = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - started) / repeats


@dataclass(frozen=True)
class Pair:
    """The same work by us and by the peer."""

    ours: Work
    theirs: Work


@dataclass(frozen=True)
class PeerComparison:
    """One line of the page of speeds."""

    group: str
    """A word by which lines are chosen: gpt, bert, decoding ..."""
    work: str
    peer: str
    target: float
    """The ratio of the peer's time to ours that we aim at."""
    make: Callable[[], Pair]
    package: str = "torch"
    """The package that the peer is imported from."""
    measures: str = "time"
    """`time`, or `memory`: the peak of what is allocated."""
    remark: str = ""
    """The bound on the ratio, where it is known."""
