"""The tries of a run that came to nothing, counted in its folder: whichever worker takes it up knows of all of them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from headtohead.errors import UsageError
from headtohead.files import leases
from headtohead.files.leases import Leases
from headtohead.records.run_folder import TRY, RunFolder

TRIES = 2
"""The most times that a run's process is killed without getting further: it may have been unlucky once."""
MOST_LOST = 5
"""The most times that the worker is lost with it: a node that failed or was needed elsewhere is not the run's fault."""
_OVER = "over"


class RunTries:
    """The tries of one run since it last got further; whoever calls this holds the claim to the run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = Leases(folder / "leases")
        self._number = 0

    def begin(self) -> None:
        """Count a try, and where it begins."""
        self._files.folder.mkdir(parents=True, exist_ok=True)
        self._number = self._last() + 1
        while not leases.system.create(self._file(self._number), str(self._step())):
            self._number += 1  # one that this machine does not see yet

    def end(self, death: str | None) -> None:
        """Say how the process of the try that began ended; None where it was asked to, or its run has ended."""
        file = self._file(self._number)
        with suppress(OSError):  # a full disk, or a folder that somebody removed: the try stays one of unknown end
            leases.system.write(file, _OVER if death is None else f"{leases.system.read(file)[0]} {death}")

    def why_given_up(self) -> str | None:
        """Return why the run is not to be tried again, or None where it is."""
        deaths = self._deaths()
        seen = [death for death in deaths if death]
        if len(seen) < TRIES and len(deaths) < MOST_LOST:
            return None
        how = ", ".join(dict.fromkeys(death or "lost with its worker" for death in deaths))
        return (
            f"its process died {len(deaths)} times at step {self._step()} without a message ({how}): the machine may "
            "have run out of memory; lower data.batch_size, or start fewer workers, then give --retry"
        )

    def _deaths(self) -> list[str]:
        """Return how each of the last tries ended that got no further than where it began, the last one first."""
        if _ended_orderly(self._folder):
            return []
        step, number = self._step(), self._last()
        deaths: list[str] = []
        while number > 0 and len(deaths) < MOST_LOST:
            try:
                start, _, death = leases.system.read(self._file(number))[0].partition(" ")
            except FileNotFoundError:
                break
            if not start.isdecimal() or int(start) < step:
                break
            deaths.append(death)
            number -= 1
        return deaths

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
        return self._files.listing()[0].get(TRY, 0)

    def _file(self, number: int) -> Path:
        return self._files.folder / f"{TRY}.{number}"


def _ended_orderly(folder: Path) -> bool:
    """Return whether the last process to write the record had the time to say how it ended."""
    try:
        return RunFolder(folder).read_record_as_written().status != "running"
    except (UsageError, OSError):
        return False
