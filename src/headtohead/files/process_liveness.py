"""A process is identified across reuse of its number, and known to live or not."""

from __future__ import annotations

import hashlib
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Owner:
    """A process by its number, its start and its machine."""

    pid: int
    started: str
    machine: str
    """A hash of the boot and the process namespace, which share the numbering."""
    host: str = field(default="another machine", compare=False)
    """The machine's name, for messages alone."""

    @classmethod
    def this_process(cls) -> Owner:
        pid = os.getpid()
        return cls(pid, _start_of(pid) or "", _machine(), socket.gethostname())

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    def is_alive(self) -> bool | None:
        """Return whether the process still lives; None where this machine cannot know."""
        if self.machine != _machine():
            return None
        return _start_of(self.pid) == self.started


def _start_of(pid: int) -> str | None:
    """Return when a process started; None where it does not exist or is a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        state, *rest = stat.rpartition(")")[2].split()
        return None if state in "ZX" else rest[18]  # field 22: clock ticks since the boot, which no clock change moves
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except (OSError, IndexError):
        return None
    import psutil  # where there is no /proc: most commands do without it

    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.1f}"
    except psutil.Error:
        return None


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        identity = f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        import uuid

        identity = f"{uuid.getnode()}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]
