"""The system calls that leases are made of, in one place, so that a simulation can put other files and clocks there."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Lock

from headtohead.files import disk_operations
from headtohead.files.disk_operations import OutOfDisk, is_full
from headtohead.files.process_liveness import Owner
from headtohead.files.safe_read import DamagedFile, read_text

_LOCK_SECONDS = 5.0
"""The longest that a taker waits for the write at hand; a holder that was stopped within one is dead or asleep."""
_POLL_SECONDS = 0.01


class LeaseFiles:
    """Small files in a folder that machines share, the clock of this one, and the processes on it."""

    def this_process(self) -> Owner:
        """Return the process that takes leases."""
        return Owner.this_process()

    def is_alive(self, owner: Owner) -> bool | None:
        """Return whether a process still lives; None where this machine cannot know."""
        return owner.is_alive()

    def mutex(self) -> AbstractContextManager[object]:
        """Return what excludes the threads of this process from each other."""
        return Lock()

    def seconds(self) -> float:
        """Return the time by a clock that nobody sets, and that goes on while the machine sleeps."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()

    def wall_seconds(self) -> float:
        """Return the time of the day, in seconds since 1970."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait, for another process to give a sign of life."""
        time.sleep(seconds)

    def names(self, folder: Path) -> list[str]:
        """Return the names of the files in a folder, none where there is no folder."""
        try:
            return [entry.name for entry in os.scandir(folder)]
        except FileNotFoundError:
            return []

    def exists(self, path: Path) -> bool:
        """Return whether there is such a file; a shared disk may not show a new one yet."""
        return path.exists()

    def create(self, path: Path, text: str) -> bool:
        """Create a file that did not exist, and return whether this process was the one to do so."""
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            return False
        try:
            disk_operations.system.write(handle, text.encode())
        except OSError as error:
            path.unlink(missing_ok=True)
            if is_full(error):
                raise OutOfDisk(path) from error
            raise
        finally:
            os.close(handle)
        return True

    def read(self, path: Path) -> tuple[str, int]:
        """Return the text of a file, empty where it has none, and when it was last touched, in nanoseconds. To open a
        file asks the machine that stores it, whatever this one remembers."""
        try:
            text = read_text(path)
        except DamagedFile:
            text = ""
        return text, path.stat().st_mtime_ns

    def write(self, path: Path, text: str) -> None:
        """Replace the text of a file."""
        path.write_text(text, encoding="utf-8")

    def remove(self, path: Path) -> None:
        """Remove a file that marks something, if it is there."""
        path.unlink(missing_ok=True)

    def touch(self, path: Path) -> None:
        """Give a file the present time."""
        os.utime(path)

    @contextmanager
    def locked(self, path: Path) -> Iterator[None]:
        """Exclude the holder's writes and a takeover from each other, on file systems that support locks."""
        try:
            file = path.open("r+b")
        except OSError:
            yield
            return
        with file:
            end = time.monotonic() + _LOCK_SECONDS
            while not _lock(file.fileno()) and time.monotonic() < end:
                time.sleep(_POLL_SECONDS)
            yield


def _lock(handle: int) -> bool:
    """Return False while another holds the lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
