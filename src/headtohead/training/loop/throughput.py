"""Measure how fast a run trains: work done over time spent training, without warm-up and validation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from headtohead.training.energy_counters import NOTHING, Energy, EnergyCounter, NoCounter

BETWEEN_READINGS = 10.0
"""The seconds after which a counter of energy is read at the end of a step: it may go round in a minute."""


@dataclass
class WorkDone:
    """Work done is a set of counts summed over devices, and of times measured on one device."""

    steps: int = 0
    samples: int = 0
    tokens: int = 0
    flops: float = 0.0
    """The FLOPs of the model, by the ledger: recomputed activations do not count, nor does padding."""
    padding: float = 0.0
    """FLOPs spent on padding."""
    seconds: float = 0.0
    waited: float = 0.0
    """Seconds of those spent waiting for data."""
    energy: Energy = NOTHING

    def __add__(self, other: WorkDone) -> WorkDone:
        return WorkDone(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def rates(self, *, peak_flops: float | None) -> dict[str, float | None]:
        """Empty when nothing was measured. `peak_flops` is that of all devices together."""
        if not self.steps or not self.seconds:
            return {}
        achieved = self.flops / self.seconds
        return {
            "tokens_per_second": self.tokens / self.seconds,
            "samples_per_second": self.samples / self.seconds,
            "step_seconds": self.seconds / self.steps,
            "data_wait_share": self.waited / self.seconds,
            "flops_per_second": achieved,
            "padding_share": self.padding / max(1.0, self.flops + self.padding),
            "mfu": achieved / peak_flops if peak_flops else None,
            **self._energy_rates(),
        }

    def _energy_rates(self) -> dict[str, float]:
        """Empty where no energy was measured."""
        if (joules := self.energy.joules) is None or not self.energy.source:
            return {}
        per_token = {"joules_per_token": joules / self.tokens} if self.tokens else {}
        return {**per_token, "joules_per_sample": joules / max(1, self.samples), "watts": joules / self.seconds}


class ThroughputMeter:
    """Counts steps as they end. What is read must be finished work: wait for the device first."""

    def __init__(
        self, *, warm_up: int, clock: Callable[[], float] = time.perf_counter, counter: EnergyCounter | None = None
    ) -> None:
        self._clock, self._counter = clock, counter or NoCounter("nobody opened a counter")
        self._left_to_warm_up = warm_up
        self._current = WorkDone()
        self._since: float | None = None
        self.measured = WorkDone()
        """All that was read after warm-up."""
        self.seconds = 0.0
        """Spent training, warm-up included."""
        self.energy = NOTHING
        """Drawn while training, warm-up included."""

    def expect(self, num_steps: int) -> None:
        """Warm up for no more than half of the steps that are left to train."""
        self._left_to_warm_up = min(self._left_to_warm_up, num_steps // 2)

    def start(self) -> None:
        self._counter.read()  # what was drawn until now is not training's
        self._since = self._clock()

    def add(self, *, samples: int, tokens: int, flops: float, padding: float, waited: float) -> None:
        """One step has ended."""
        work = self._current
        work.steps += 1
        work.samples += samples
        work.tokens += tokens
        work.flops += flops
        work.padding += padding
        work.waited += waited
        if self._since is not None and self._clock() - self._since >= BETWEEN_READINGS:
            self._tick()

    @property
    def is_warm(self) -> bool:
        return self._left_to_warm_up <= 0

    @property
    def ends_warm_up(self) -> bool:
        """Return whether the step just added is the last one before the measurement starts."""
        return 0 < self._left_to_warm_up <= self._current.steps

    def read(self) -> WorkDone:
        """The work since the last reading; nothing at all during warm-up."""
        self._tick()
        work, self._current = self._current, WorkDone()
        if not self.is_warm:
            self._left_to_warm_up -= work.steps
            return WorkDone()
        self.measured += work
        return work

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time spent in this context."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def stop(self) -> None:
        """Stop the clock until the next start."""
        self._tick()
        self._since = None

    def _tick(self) -> None:
        if self._since is None:
            return
        now = self._clock()
        self._current.seconds += now - self._since
        self.seconds += now - self._since
        drawn = self._counter.drawn()
        self._current.energy += drawn
        self.energy += drawn
        self._since = now
