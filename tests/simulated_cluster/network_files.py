"""The files of leases on a shared disk as other machines see them: late, without locks, and sometimes slowly."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headtohead.files.lease_files import LeaseFiles
from headtohead.files.process_liveness import Owner
from simulated_cluster.clock import Clock


class ProcessKilled(BaseException):
    """Raised wherever a killed process would do its next system call."""


@dataclass
class Machine:
    """A computer of the cluster; its clocks run by themselves, and it remembers names and times of files."""

    name: str
    boot: int
    skew: float
    """The difference of its wall clock, in seconds."""
    drift: float
    """The drift of its monotonic clock, per second."""
    memory: float
    """Seconds for which it relies on what it saw of names and times."""

    @property
    def identity(self) -> str:
        return f"{self.name}-{self.boot}"


@dataclass
class _File:
    text: str
    beat: int
    created: float
    machine: str


@dataclass
class _Folder:
    times: list[float] = field(default_factory=list)
    """The times at which files were created, in order."""
    machines: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)

    def add(self, time: float, machine: str, name: str) -> None:
        self.times.append(time)
        self.machines.append(machine)
        self.names.append(name)

    def remove(self, name: str) -> None:
        index = self.names.index(name)
        for column in (self.times, self.machines, self.names):
            del column[index]

    def seen_by(self, machine: str, until: float) -> list[str]:
        """Return the names that a machine sees which saw the folder last at a time: those of then, and its own."""
        index = bisect_right(self.times, until)
        later = zip(self.machines[index:], self.names[index:], strict=True)
        return self.names[:index] + [name for whose, name in later if whose == machine]


class Server:
    """The disk itself: what is true, whoever has seen it."""

    def __init__(self, clock: Clock, seed: int, *, slow_share: float) -> None:
        self.clock = clock
        self.files: dict[Path, _File] = {}
        self.folders: dict[Path, _Folder] = {}
        self.slow_share = slow_share
        """The share of the operations that take seconds."""
        self.random = random.Random(seed)
        self.living: set[tuple[str, int]] = set()
        """Processes by machine and number."""

    def seen_until(self, machine: Machine) -> float:
        """Return the time whose names a machine sees at most: it asks again once its memory is too old."""
        now = self.clock.now
        return now if machine.memory <= 0 else now - now % machine.memory


class Mutex:
    """While a thread of a process is in it, the events of the others are put off."""

    def __init__(self, files: NetworkFiles) -> None:
        self._files = files

    def __enter__(self) -> None:
        self._files.is_locked = True

    def __exit__(self, *_: object) -> None:
        self._files.is_locked = False


class NetworkFiles(LeaseFiles):
    """Those files as one process on one machine has them."""

    def __init__(self, server: Server, machine: Machine, number: int) -> None:
        self.server, self.machine, self.number = server, machine, number
        self.slow_share = server.slow_share
        self.is_killed = self.is_locked = False
        self.operations: Counter[str] = Counter()
        self._identity = machine.identity
        server.living.add((machine.identity, number))

    def kill(self) -> None:
        """End the process: it does nothing any more."""
        self.is_killed = True
        self.server.living.discard((self._identity, self.number))

    def mutex(self) -> Mutex:
        return Mutex(self)

    def this_process(self) -> Owner:
        return Owner(self.number, "0", self._identity, self.machine.name)

    def is_alive(self, owner: Owner) -> bool | None:
        if owner.machine != self._identity:
            return None
        return (owner.machine, owner.pid) in self.server.living

    def seconds(self) -> float:
        return self.server.clock.now * (1 + self.machine.drift)

    def wall_seconds(self) -> float:
        return self.server.clock.now + self.machine.skew

    def sleep(self, seconds: float) -> None:
        self.server.clock.pause(max(seconds, 5.0))
        if self.is_killed:
            raise ProcessKilled

    def names(self, folder: Path) -> list[str]:
        self._operation("list")
        stored = self.server.folders.get(folder)
        if stored is None:
            return super().names(folder)  # of runs
        return stored.seen_by(self.machine.name, self.server.seen_until(self.machine))

    def exists(self, path: Path) -> bool:
        self._operation("look")
        file = self.server.files.get(path)
        return file is not None and self._is_seen(file)

    def create(self, path: Path, text: str) -> bool:
        """Create a file, and write to it a moment later: in between it is there and empty."""
        self._operation("create")
        folder = self.server.folders.setdefault(path.parent, _Folder())
        if path in self.server.files:
            return False
        now = self.server.clock.now
        file = self.server.files[path] = _File("", self._beat(), now, self.machine.name)
        folder.add(now, self.machine.name, path.name)
        self._maybe_slow()
        file.text, file.beat = text, self._beat()
        return True

    def read(self, path: Path) -> tuple[str, int]:
        self._operation("open")
        if path not in self.server.files:
            raise FileNotFoundError(path)
        file = self.server.files[path]
        return file.text, file.beat

    def write(self, path: Path, text: str) -> None:
        self._operation("open")
        file = self.server.files[path]
        file.text = ""
        self._maybe_slow()
        file.text, file.beat = text, self._beat()

    def remove(self, path: Path) -> None:
        self._operation("create")
        if self.server.files.pop(path, None) is not None:
            self.server.folders[path.parent].remove(path.name)

    def touch(self, path: Path) -> None:
        self._operation("touch")
        self.server.files[path].beat = self._beat()

    @contextmanager
    def locked(self, path: Path) -> Iterator[None]:
        """No locks: not every shared disk has them."""
        del path
        yield

    def pass_by(self) -> None:
        """Take the time of one operation; raise ProcessKilled where the process was killed before or meanwhile."""
        if self.is_killed:
            raise ProcessKilled
        self._maybe_slow()

    def _operation(self, kind: str) -> None:
        self.operations[kind] += 1
        self.pass_by()

    def _maybe_slow(self) -> None:
        if self.server.random.random() < self.slow_share:
            self.server.clock.pause(self.server.random.uniform(0.1, 25.0))
            if self.is_killed:
                raise ProcessKilled

    def _is_seen(self, file: _File) -> bool:
        return file.machine == self.machine.name or file.created <= self.server.seen_until(self.machine)

    def _beat(self) -> int:
        return int((self.server.clock.now + self.machine.skew) * 1e9)
