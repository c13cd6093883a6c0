"""Who writes a run folder, and whether that process still lives: tells a live `running` from a dead one."""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from headtohead.files.reading import read_object
from headtohead.files.writing import replace_text

STALE_SECONDS = 1800.0
"""A process of another machine cannot be looked up: it counts as dead after this long without a heartbeat."""


@dataclass(frozen=True)
class Owner:
    """A process, told apart from all others that had or will have its number."""

    pid: int
    started: str
    machine: str
    """A hash of the boot and the process namespace, which share the numbering; says nothing about the host."""

    @classmethod
    def this_process(cls) -> Owner:
        pid = os.getpid()
        return cls(pid, _start_of(pid) or "", _machine())

    def lives(self) -> bool | None:
        """None where this machine cannot know."""
        if self.machine != _machine():
            return None
        return _start_of(self.pid) == self.started


class Heartbeat:
    """The file that names a run folder's owner; its time of change is the last sign of life."""

    def __init__(self, path: Path, *, every_seconds: float = 1.0) -> None:
        self.path = path
        self.every_seconds = every_seconds
        self._last = 0.0

    def claim(self) -> None:
        replace_text(self.path, json.dumps(asdict(Owner.this_process())) + "\n")

    def beat(self) -> None:
        """Cheap enough for every logged step."""
        now = time.monotonic()
        if now - self._last >= self.every_seconds:
            os.utime(self.path)
            self._last = now

    def owner(self) -> Owner | None:
        try:
            return Owner(**read_object(self.path))
        except (OSError, ValueError, TypeError):
            return None

    def is_mine(self) -> bool:
        return self.owner() == Owner.this_process()

    def owner_lives(self) -> bool:
        owner = self.owner()
        if owner is None:
            return False
        lives = owner.lives()
        return lives if lives is not None else time.time() - self.path.stat().st_mtime < STALE_SECONDS


def _start_of(pid: int) -> str | None:
    """When a process began, None where there is none or only its remains (a zombie)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        state, *rest = stat.rpartition(")")[2].split()
        return None if state in "ZX" else rest[18]  # field 22: clock ticks since the boot, which no clock change moves
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except (OSError, IndexError):
        return None
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
        identity = f"{uuid.getnode()}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]
