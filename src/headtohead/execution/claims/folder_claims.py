"""Claims as leases in the plan's folder, which is all that workers need to share.

One look costs one listing of the folder and a bounded number of opened files, however many runs and workers there are:
names alone tell which runs nobody has taken yet and which are done. Of the rest a worker watches a few, and replaces
those whose holder gives a sign of life by others.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from headtohead.execution.claims.run_claims import Claim, ClaimedRun, RunClaims
from headtohead.files.leases import Lease, Leases

_WATCHED, _WATCHED_IDLE = 8, 16
"""The most leases that one look opens."""
_MOST_TRIES = 32
"""The most runs that one look tries to take: after as many that others were quicker to take, the listing is old."""


class FolderClaims(RunClaims):
    """Leases named by run; `seed` makes the choices among runs repeatable."""

    def __init__(self, leases: Leases, *, seed: int | None = None) -> None:
        self._leases = leases
        self._random = random.Random(seed)
        self._done: set[str] = set()
        self._watched: list[str] = []

    def take_next(self, runs: Sequence[str], *, is_idle: bool) -> ClaimedRun | None:
        numbers, marked = self._leases.listing()
        self._done |= marked
        self._leases.folder.mkdir(parents=True, exist_ok=True)
        remaining = [run for run in runs if run not in self._done]
        most = _WATCHED_IDLE if is_idle else _WATCHED
        return self._left_behind([run for run in remaining if run in numbers], numbers, most) or self._untaken(
            [run for run in remaining if run not in numbers]
        )

    def take(self, run: str) -> Lease | None:
        return self._leases.take(run)

    def look(self) -> set[str]:
        self._done |= self._leases.listing()[1]
        return self._done

    def forget(self, run: str) -> None:
        self._done.discard(run)
        self._leases.unmark(run)

    def _untaken(self, runs: Sequence[str]) -> ClaimedRun | None:
        """Take one of the first runs that nobody has taken. Who collides with others jumps ahead, by twice as much each
        time: a thousand workers that begin together need a dozen tries each rather than a thousand."""
        index, collisions = 0, 0
        while index < len(runs) and collisions < _MOST_TRIES:
            if (lease := self._leases.take_after(runs[index], 0)) is not None:
                return ClaimedRun(runs[index], lease)
            collisions += 1
            index += self._random.randint(1, 2 ** min(collisions, 10))
        return None

    def _left_behind(self, runs: Sequence[str], numbers: Mapping[str, int], most: int) -> ClaimedRun | None:
        """Take a run whose last holder gave it back or has died."""
        taken = set(runs)
        self._watched = [run for run in self._watched if run in taken]
        if (room := most - len(self._watched)) > 0:
            others = sorted(taken.difference(self._watched))
            self._watched += self._random.sample(others, min(len(others), room))
        for run in list(self._watched[:most]):
            claim = self._claim_where_free(run, numbers[run])
            if claim is not None:
                self._watched.remove(run)
                return ClaimedRun(run, claim)
        return None

    def _claim_where_free(self, run: str, last: int) -> Claim | None:
        standing = self._leases.standing(run, last)
        if standing == "beating":
            self._watched.remove(run)
        elif standing == "done":
            self._done.add(run)
        elif standing != "silent":
            return self._leases.take_after(run, last, take_over=True)
        return None
