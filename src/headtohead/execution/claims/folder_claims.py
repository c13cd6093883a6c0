"""Claims as leases in the plan's folder, which is all that workers need to share.

A look costs a bounded number of opened files, however many runs and workers there are: the names in the folder tell
which runs nobody has taken yet and which are done, and they are read again only once as much was done with files as
reading them costs. In between only the creation of a lease decides. Of the runs that are taken a worker watches a few,
and replaces those whose holder gives a sign of life by others.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from itertools import islice

from headtohead.execution.claims.run_claims import ClaimedRun, RunClaims
from headtohead.files.leases import Lease, Leases

_WATCHED, _WATCHED_IDLE = 8, 16
"""The most leases that one look opens."""
_MOST_TRIES = 32
"""The most runs that one look tries to take: after as many that others were quicker to take, the listing is old."""
_NAMES_PER_FILE = 64
"""The names of a folder that are read in the time in which one file is opened or created."""
_FILES_PER_DONE = 16
"""A watched run that is done says that the names are old, as much as so many opened files do."""


class FolderClaims(RunClaims):
    """Leases named by run; `seed` makes the choices among runs repeatable."""

    def __init__(self, leases: Leases, *, seed: int | None = None) -> None:
        self._leases = leases
        self._random = random.Random(seed)
        self._taken: dict[str, int] = {}
        """The last known number of each run that somebody has taken and that is not known to be done."""
        self._done: set[str] = set()
        """Runs that are done, of which the caller does not know yet."""
        self._collided: set[str] = set()
        """Runs that others have taken since the names were read."""
        self._watched: list[str] = []
        self._names = self._files = 0
        """The names that were read the last time, and the files that were opened or created since."""

    def offer(self, runs: Collection[str]) -> None:
        del runs  # the names in the folder are enough
        self._leases.folder.mkdir(parents=True, exist_ok=True)

    def take_next(self, runs: Collection[str], *, is_idle: bool) -> ClaimedRun | None:
        self._read_names_where_due()
        is_fresh = self._files == 0
        claimed = self._left_behind(runs, _WATCHED_IDLE if is_idle else _WATCHED) or self._untaken(runs)
        if claimed is None and self._collided and not is_fresh:
            self._read_names()
            claimed = self._untaken(runs)
        return claimed

    def take(self, run: str) -> Lease | None:
        return self._leases.take(run)

    def look(self) -> set[str]:
        self._read_names_where_due()
        return self.newly_done()

    def newly_done(self) -> set[str]:
        done, self._done = self._done, set()
        return done

    def forget(self, run: str) -> None:
        self._done.discard(run)
        self._leases.unmark(run)
        self._names = 0  # the next look reads them

    def _read_names_where_due(self) -> None:
        if self._files * _NAMES_PER_FILE >= self._names:
            self._read_names()

    def _read_names(self) -> None:
        numbers, done = self._leases.listing()
        known = self._taken
        self._taken = {run: max(last, known.get(run, 0)) for run, last in numbers.items() if run not in done}
        self._done |= done
        self._collided.clear()
        self._names, self._files = len(numbers) + len(done), 0

    def _untaken(self, runs: Collection[str]) -> ClaimedRun | None:
        """Take one of the first runs that nobody has taken. Who collides with others jumps ahead, by twice as much each
        time: a thousand workers that begin together need a dozen tries each rather than a thousand."""
        others = (self._taken, self._collided, self._done)
        untaken = (run for run in runs if not any(run in known for known in others))
        run, collisions = next(untaken, None), 0
        while run is not None and collisions < _MOST_TRIES:
            if (claimed := self._claim_after(run, 0)) is not None:
                return claimed
            self._collided.add(run)
            collisions += 1
            ahead = self._random.randint(1, 2 ** min(collisions, 10))
            run = next(islice(untaken, ahead - 1, None), None)
        return None

    def _left_behind(self, runs: Collection[str], most: int) -> ClaimedRun | None:
        """Take a run whose last holder gave it back or has died."""
        self._watched = [run for run in self._watched if run in self._taken and run in runs]
        if (room := most - len(self._watched)) > 0:
            watched = set(self._watched)
            others = [run for run in self._taken if run in runs and run not in watched]
            self._watched += self._random.sample(others, min(len(others), room))
        for run in list(self._watched[:most]):
            if (claimed := self._claim_where_free(run, self._taken[run])) is not None:
                self._watched.remove(run)
                return claimed
        return None

    def _claim_where_free(self, run: str, last: int) -> ClaimedRun | None:
        self._files += 1
        standing = self._leases.standing(run, last)
        if standing == "beating":
            self._watched.remove(run)
        elif standing == "done":
            del self._taken[run]
            self._done.add(run)
            self._files += _FILES_PER_DONE
        elif standing != "silent":
            if (claimed := self._claim_after(run, last)) is not None:
                return claimed
            self._taken[run] = last + 1  # another was quicker
        return None

    def _claim_after(self, run: str, last: int) -> ClaimedRun | None:
        self._files += 1
        lease = self._leases.take_after(run, last, take_over=True)
        if lease is None:
            return None
        self._taken[run] = lease.number
        return ClaimedRun(run, lease)
