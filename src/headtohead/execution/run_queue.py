"""The runs that one worker may still do: what is next, and what others have done."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headtohead.execution.claims.run_claims import Claim, RunClaims
from headtohead.execution.run_attempts import RunAttempts
from headtohead.execution.run_spec import Replan, RunSpec, WorkPlan
from headtohead.execution.single_run import give_up, is_done
from headtohead.files import leases
from headtohead.records.run_folder import RunFolder

_WAIT_SECONDS, _MOST_WAIT_SECONDS = 1.0, 30.0
_IDLE_SHARE = 8
"""A worker that has been idle for long looks again after an eighth of that time."""


@dataclass(frozen=True)
class Job:
    """A run that this worker has claimed."""

    run: RunSpec
    folder: Path
    claim: Claim


class RunQueue:
    """A run queue is what is left of a plan for one worker. Others may work on the same: claims say who does what."""

    def __init__(
        self,
        plan: WorkPlan,
        runs: Sequence[RunSpec],
        claims: RunClaims,
        *,
        again: Replan | None = None,
        is_done: Callable[[Path], bool] = is_done,
    ) -> None:
        self.plan, self._claims, self._again, self._is_done = plan, claims, again, is_done
        self._tries: dict[str, RunAttempts] = {}
        self._still_written: set[str] = set()
        """Runs that a process of this machine still writes, whose worker is gone or asleep: others come first."""
        self._removed: dict[str, Path] = {}
        """The folders that were gone of runs whose claims said that they are done: of these the records decide."""
        self._ended: set[str] = set()
        """Runs that are known to be done, of a plan from which more may follow."""
        self._groups = self._offered(runs)
        done = self._claims.look()
        self._offer_removed(done)
        self._drop(done)

    @property
    def has_work(self) -> bool:
        """Return whether some run is not known to be done."""
        return any(self._groups)

    @property
    def awaits_more(self) -> bool:
        """Return whether runs may follow although none is known: what has ended may not be seen here yet."""
        return self._again is not None and self.plan.is_open

    def by_devices(self) -> Iterator[Mapping[str, RunSpec]]:
        """Yield what is left in groups of runs that take as many devices, by their ids, in the order of the plan. To
        look for a run of one group may show that all of the next are done."""
        yield from (runs for runs in self._groups if runs)

    def take(self, runs: Mapping[str, RunSpec], *, is_idle: bool = False) -> Job | None:
        """Claim one run of a group, or return None where others hold or have done them."""
        while (claimed := self._claims.take_next(self._free(runs), is_idle=is_idle)) is not None:
            run = runs[claimed.run]
            self._drop(self._claims.newly_done())
            folder = self.plan.run_folder(run)
            if not self._is_done(folder):
                return Job(run, folder, claimed.claim)
            claimed.claim.release(is_done=True)
            self._drop({run.id})
        self._drop(self._claims.look())
        self._still_written.clear()
        return None

    def _free(self, runs: Mapping[str, RunSpec]) -> Collection[str]:
        if not self._still_written:
            return runs.keys()
        return {name: None for name in runs if name not in self._still_written}

    def begin(self, job: Job) -> bool:
        """Make the run free to be written, and return whether it is, and is to be tried."""
        folder = RunFolder(job.folder)
        if folder.written_here():  # a dead worker's run ends by itself, and soon
            job.claim.release()
            self._still_written.add(job.run.id)
            return False
        folder.mark_abandoned()
        tries = RunAttempts(job.folder)
        if (reason := tries.why_given_up()) is not None:
            self._give_up(job, reason)
            return False
        tries.begin()
        self._tries[job.run.id] = tries
        return True

    def note_stop(self, job: Job) -> None:
        """Say that the worker was asked to end, before both are killed: compiling may take longer than a scheduler
        waits, and a run is not to blame for that, however often."""
        self._tries[job.run.id].end(None)

    def end(self, job: Job, *, death: str | None = None) -> None:
        """Give the claim back after the run's process has ended; `death` is how, unless it was asked to."""
        ended, tries = self._is_done(job.folder), self._tries.pop(job.run.id)
        tries.end(None if ended else death)
        if not ended and (reason := tries.why_given_up()) is not None:
            self._give_up(job, reason)
            return
        job.claim.release(is_done=ended)
        if ended:
            self._drop({job.run.id})

    def _give_up(self, job: Job, reason: str) -> None:
        """Say in the run's record why nobody tries it again."""
        give_up(job.run, job.folder, reason)
        job.claim.release(is_done=self._is_done(job.folder))
        self._drop({job.run.id})

    def plan_more(self) -> bool:
        """Return whether what has ended has led to more runs."""
        if self._again is None or not self.plan.is_open:
            return False
        self.plan, runs = self._again()
        self._groups = self._offered(run for run in runs if run.id not in self._ended)
        self._drop(self._claims.look())
        return self.has_work

    def _offered(self, runs: Iterable[RunSpec]) -> list[dict[str, RunSpec]]:
        """Return these runs in groups, known to the claims."""
        groups: dict[int, dict[str, RunSpec]] = {}
        ids = []
        for run in runs:
            groups.setdefault(run.devices, {})[run.id] = run
            ids.append(run.id)
        self._claims.offer(ids)
        return list(groups.values())

    def _drop(self, ids: set[str]) -> None:
        """Leave out what is done. A run is dropped once, so that a claim costs no more the more runs are done."""
        if unfinished := {run for run in self._removed.keys() & ids if not self._is_done(self._removed[run])}:
            self._claims.offer(unfinished)
            for run in unfinished:
                self._offer_again(run)
            ids = ids - unfinished
        if self.awaits_more:
            self._ended |= ids
        for group in self._groups:
            for name in ids if len(ids) < len(group) else [name for name in group if name in ids]:
                group.pop(name, None)

    def _offer_removed(self, done: set[str]) -> None:
        """Offer again what is done by its claim while its folder was removed: records are the truth."""
        there: dict[Path, set[str]] = {}
        for run in [run for group in self._groups for run in group.values() if run.id in done]:
            if any(run.id in names for names in there.values()):
                continue
            folder = self.plan.run_folder(run)
            if folder.parent not in there:
                there[folder.parent] = set(leases.system.names(folder.parent))
            if folder.name in there[folder.parent]:
                continue
            self._removed[run.id] = folder
            self._offer_again(run.id)

    def _offer_again(self, run: str) -> None:
        """Take back that a removed run is done, unless another worker has the claim, which does the same or trains the
        run: if it dies before, this is called once more."""
        if (claim := self._claims.take(run)) is not None:
            if not (ended := self._is_done(self._removed[run])):
                self._claims.forget(run)
            claim.release(is_done=ended)


def idle_seconds(idle_since: float, now: float) -> float:
    """Return how long a worker waits that has found nothing to do since then."""
    return min(_MOST_WAIT_SECONDS, max(_WAIT_SECONDS, (now - idle_since) / _IDLE_SHARE))
