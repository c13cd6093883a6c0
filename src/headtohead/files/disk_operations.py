"""The operations that put a file on a disk are in one place, so that a test can make each of them fail."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from typing_extensions import Buffer

from headtohead.errors import UsageError

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The system's errors where a file finds no room."""


class OutOfDisk(UsageError, OSError):  # noqa: N818 - the name of an outcome, like OutOfMemoryError
    """A disk has no room for a file; the message names the file and what to do."""

    def __init__(self, path: Path, detail: str = "") -> None:
        OSError.__init__(self, errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        self.path, self._detail = path, detail

    def __str__(self) -> str:
        return self.sentence("run the command again")

    def sentence(self, then: str) -> str:
        """Return the sentence that says what was not written, and what to do once there is room."""
        return f"the disk is full: {self.path} was not written{self._detail}: free some space, then {then}"


class Disk:
    """The system calls that make a whole file appear on a disk."""

    def write(self, handle: int, data: Buffer) -> int:
        """Write at the position of the handle, and return the number of bytes that went in."""
        return os.write(handle, data)

    def sync(self, handle: int) -> None:
        """Wait until the bytes written so far would survive a power cut."""
        os.fsync(handle)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file, replacing another of that name."""
        source.replace(target)

    def sync_folder(self, folder: Path) -> None:
        """Wait until the names in the folder would survive a power cut; not every file system can."""
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
                raise
        finally:
            os.close(handle)

    def free_bytes(self, folder: Path) -> int:
        """Return how many bytes this user can still write there."""
        return shutil.disk_usage(folder).free


system = Disk()
"""The disk at hand."""


def is_full(error: BaseException) -> bool:
    """Return whether an error, or its cause, says that a disk has no room."""
    seen: BaseException | None = error
    for _ in range(10):
        if isinstance(seen, OSError) and seen.errno in FULL:
            return True
        seen = seen and (seen.__cause__ or seen.__context__)
    return False
