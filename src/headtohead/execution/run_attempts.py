"""The tries of a run that came to nothing, counted in its folder: whichever worker takes it up knows of all of them."""

from __future__ import annotations

import signal
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from headtohead.errors import UsageError
from headtohead.files import leases
from headtohead.files.leases import Leases
from headtohead.records.run_folder import RECORD, TRY, RunFolder

MAX_ATTEMPTS = 2
"""The most times that a run's process is killed without getting further: it may have been unlucky once."""
MOST_LOST = 5
"""The most times that the worker is lost with it: a node that failed or was needed elsewhere is not the run's fault."""
_OVER = "over"


def exit_signal(number: int) -> str:
    """Return how a process died of a signal."""
    return f"signal {number}"


_REQUESTED = {
    exit_signal(one) for one in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
}
"""The deaths of processes that were asked to end before they could save anything: a scheduler that needs a node asks
all of its processes, and a worker may see its run's end before it is asked itself."""


@dataclass(frozen=True)
class _Try:
    """A try that got no further than where it began, as far as its file tells."""

    step: int
    record: str
    """The mark of the record as the try began."""
    death: str
    """The way in which the process ended; empty where nobody was left to see it."""


class RunAttempts:
    """The failed attempts at one run since it last made progress. The caller must hold the claim to the run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = Leases(folder / "leases")
        self._number = 0

    def begin(self) -> None:
        """Count a try, and where it begins."""
        self._files.folder.mkdir(parents=True, exist_ok=True)
        last = self._last()
        if (before := self._read(last)) is not None and self._ended_orderly(before):
            leases.system.write(self._file(last), _OVER)
        self._number = last + 1
        while not leases.system.create(self._file(self._number), f"{self._step()} {self._mark()}"):
            self._number += 1  # one that this machine does not see yet

    def end(self, death: str | None) -> None:
        """Say how the process of the try that began ended; None where it was asked to, or its run has ended."""
        with suppress(OSError):  # a full disk, or a folder that somebody removed: the try stays one of unknown end
            begun = self._read(self._number)
            text = _OVER
            if death is not None and begun is not None and not self._ended_orderly(begun):
                text = f"{begun.step} {begun.record} {death}"
            leases.system.write(self._file(self._number), text)

    def why_given_up(self) -> str | None:
        """Return why the run is not to be tried again, or None where it is."""
        deaths = self._deaths()
        seen = [death for death in deaths if death and death not in _REQUESTED]
        if len(seen) < MAX_ATTEMPTS and len(deaths) < MOST_LOST:
            return None
        how = ", ".join(dict.fromkeys(death or "lost with its worker" for death in deaths))
        return (
            f"its process died {len(deaths)} times at step {self._step()} without a message ({how}): the machine may "
            "have run out of memory; lower data.batch_size, or start fewer workers, then start it again by --retry (a "
            "trial of h2h sweep by h2h runs delete and the same command)"
        )

    def _deaths(self) -> list[str]:
        """Return how each of the last tries ended that got no further than where it began, the last one first."""
        step = self._step()
        deaths: list[str] = []
        for number in range(self._last(), 0, -1):
            one = self._read(number)
            if one is None or one.step < step or len(deaths) == MOST_LOST:
                break
            if not deaths and self._ended_orderly(one):
                break
            deaths.append(one.death)
        return deaths

    def _read(self, number: int) -> _Try | None:
        """Return a try; None where there is none, it is over, or its file is damaged."""
        try:
            step, _, rest = leases.system.read(self._file(number))[0].partition(" ")
        except FileNotFoundError:
            return None
        record, _, death = rest.partition(" ")
        return _Try(int(step), record, death) if step.isdecimal() else None

    def _ended_orderly(self, one: _Try) -> bool:
        """Return whether the process of the last try had the time to say in the record how it ended."""
        if one.death or self._mark() == one.record:
            return False
        try:
            return RunFolder(self._folder).read_record_as_written().status != "running"
        except (UsageError, OSError):
            return False

    def _mark(self) -> str:
        """Return what changes whenever the record is written."""
        try:
            written = (self._folder / RECORD).stat()
        except OSError:
            return "none"
        return f"{written.st_ino}-{written.st_mtime_ns}"

    def _step(self) -> int:
        """Return how far the run came, as far as its files can be read."""
        folder = RunFolder(self._folder)
        steps = [0]
        with suppress(UsageError):
            progress = folder.metrics_file.last_progress()
            steps += [] if progress is None else [progress.step]
        with suppress(UsageError, OSError):
            steps.append(folder.read_record_as_written().progress.step)
        return max(steps)

    def _last(self) -> int:
        return self._files.last(TRY)

    def _file(self, number: int) -> Path:
        return self._files.folder / f"{TRY}.{number}"
