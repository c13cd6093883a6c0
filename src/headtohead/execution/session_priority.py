"""A process that begins a session keeps the priority that it was given."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_GROUP = Path("/proc/self/autogroup")


def keep_priority(group: Path = _GROUP) -> None:
    """Tell Linux how nice this process's session is.

    Where processors are shared among sessions (man 7 sched, autogroup), a new one is as important as any other whatever
    `nice` said of the processes in it, so that studies at a low priority would slow down all other work.
    """
    priority = os.nice(0)
    if priority > 0 and os.getsid(0) == os.getpid():
        with suppress(OSError):
            descriptor = os.open(group, os.O_WRONLY)
            try:
                os.write(descriptor, str(priority).encode())
            finally:
                os.close(descriptor)
