"""The claims to runs, of which a worker asks for the next run that nobody does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol


class Claim(Protocol):
    """The right of one worker to do one run, as long as no other takes it over."""

    def is_held(self) -> bool:
        """Return False once another worker has taken over."""

    def release(self, *, is_done: bool = False) -> None:
        """Let others take the run; one that is done is offered to nobody again."""


@dataclass(frozen=True)
class ClaimedRun:
    """A run and the claim to it."""

    run: str
    claim: Claim


class RunClaims(ABC):
    """The claims to the runs of one plan, as one worker sees them."""

    @abstractmethod
    def offer(self, runs: Collection[str]) -> None:
        """Make runs known, in the order of the plan, before any of them is taken."""

    @abstractmethod
    def take_next(self, runs: Collection[str], *, is_idle: bool) -> ClaimedRun | None:
        """Claim one of these runs, which were offered, early ones first, or return None while others hold all of them.
        A worker that is idle, since it got none the last time, looks harder for holders that have died. To ask whether
        a run is one of these must take no longer the more there are."""

    @abstractmethod
    def take(self, run: str) -> Claim | None:
        """Claim this run, or return None where another worker has it."""

    @abstractmethod
    def look(self) -> set[str]:
        """Return which of the runs that were offered are done, as far as claims can tell, since they ended under one:
        those that no earlier look returned."""

    def newly_done(self) -> set[str]:
        """Return what a look would, as far as it is known without asking."""
        return set()

    @abstractmethod
    def forget(self, run: str) -> None:
        """Offer a run again whose results were removed; whoever calls this has claimed it."""
