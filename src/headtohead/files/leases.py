"""Leases determine who writes a run folder and who does which run of a study, among processes that share only a folder.

A lease is a file, <name>.<number>, which only one process can create; the number is its token. A thread of the holder
touches it every few seconds. Whoever finds the last one dead creates the next number, and again only one can: no lease
is ever removed, so none is lost in between. A holder checks before every write that no higher number exists. After a
silence in which it may have been taken for dead it takes the next number itself: a shared disk may show a new file
late, but never creates the same one twice.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Thread
from typing import Literal, Protocol

from headtohead.errors import UsageError
from headtohead.files.lease_files import LeaseFiles
from headtohead.files.process_liveness import Owner
from headtohead.files.safe_read import parse_json

STALE_SECONDS = 60.0
"""A process of another machine cannot be looked up: it counts as dead after this long without a sign of life."""
BEAT_SECONDS = 5.0
_RELEASED, _FINISHED = "given back", "done"
_MARK = ".done"
"""Ends the name of an empty file beside the leases, so that one listing shows what is done."""
Standing = Literal["free", "done", "stale", "silent", "beating"]
"""The standing of a lease: its holder is silent since it was first looked at, or stale once that is too long ago."""
system = LeaseFiles()
"""The files, the clock and the process at hand."""


class LeaseLostError(UsageError):
    """Another process has taken over the folder that this one was writing."""


@dataclass(eq=False)
class Lease:
    """The right to write below one folder, or to do one run, as long as nobody takes it over."""

    path: Path
    number: int
    guarded: Path | None = None
    """The folder in which every write checks this lease first."""
    is_lost: bool = False
    last_beat: float = field(default_factory=lambda: system.seconds())
    _mutex: AbstractContextManager[object] = field(default_factory=lambda: system.mutex())
    """Excludes the thread that beats and the one that writes from each other: the next number may be its own."""
    _next: Path = field(init=False)
    """The file of whoever takes over."""

    def __post_init__(self) -> None:
        self._next = _file(self.path.parent, self.path.stem, self.number + 1)

    def beat(self) -> None:
        """Touch the file, as long as it counts."""
        if self.is_held():
            started = system.seconds()
            system.touch(self.path)
            self.last_beat = started

    def is_held(self) -> bool:
        """Return False once another process has taken over."""
        with self._mutex:
            self._renew_after_silence()
            self.is_lost = self.is_lost or system.exists(self._next)
            return not self.is_lost

    def check(self) -> None:
        """Raise LeaseLostError once another process has taken over."""
        if not self.is_held():
            owner = _owner_of(system.read(self._next)[0])
            raise LeaseLostError(
                f"{self.guarded or self.path} was taken over by {owner or 'another process'}: this process writes "
                "nothing more to it and ends"
            )

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Let no other process take over between the check and the end of the write."""
        self.check()
        with system.locked(self.path):
            self.check()
            yield

    def release(self, *, is_done: bool = False) -> None:
        """Let others take it; where what it was for is done, nobody takes it again."""
        drop(self)
        if self.is_held():
            system.write(self.path, _FINISHED if is_done else _RELEASED)
            if is_done:
                system.create(self.path.with_suffix(_MARK), "")

    def _renew_after_silence(self) -> None:
        """Take the next number oneself where others may count this process as dead, which only one process can."""
        if self.is_lost or system.seconds() - self.last_beat < STALE_SECONDS / 2:
            return
        started = system.seconds()
        try:
            is_ours = system.create(self._next, _this_owner())
        except FileNotFoundError:  # somebody removed the folder
            return
        if not is_ours:
            self.is_lost = True
            return
        self.path, self.number = self._next, self.number + 1
        self.__post_init__()
        self.last_beat = started


@dataclass(frozen=True)
class Holder:
    """The process that holds a lease, as far as another process can tell."""

    owner: Owner | None
    """The owner; None where its first line is yet to be written."""
    is_alive: bool | None
    """Whether the process lives; None where it belongs to another machine."""
    beat: int
    """The last sign of life in nanoseconds of the holder's clock: it is compared with other beats alone."""

    def __str__(self) -> str:
        age = max(0.0, system.wall_seconds() - self.beat / 1e9)
        seen = f"{age:.0f} seconds" if age < 120 else f"{age / 60:.0f} minutes"
        return f"{self.owner or 'a process that is just starting'} (last sign of life {seen} ago)"


class Leases:
    """The leases in one folder, as one process sees them."""

    def __init__(
        self, folder: Path, *, stale_seconds: float | None = None, clock: Callable[[], float] | None = None
    ) -> None:
        self.folder, self._clock = folder, clock or system.seconds
        self._stale_seconds = stale_seconds
        self._seen: dict[Path, tuple[int, float]] = {}
        self._numbers: dict[str, int] | None = None
        """The last number of each lease as far as this process knows; None before the folder was listed."""

    def take(self, name: str, *, guarded: Path | None = None, take_over: bool = False) -> Lease | None:
        """Take a lease, or return None if another process holds it or was quicker; take_over ignores a living
        holder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.take_after(name, self.last(name), guarded=guarded, take_over=take_over)

    def take_after(self, name: str, last: int, *, guarded: Path | None = None, take_over: bool = False) -> Lease | None:
        """Take a lease whose last number is known, 0 where there was none."""
        if not last:
            return self._create(name, 1, guarded)
        path = _file(self.folder, name, last)
        if not take_over and not self._is_free(path):
            return None
        with system.locked(path):  # no write of the last holder is under way
            return self._create(name, last + 1, guarded)

    def listing(self) -> tuple[dict[str, int], set[str]]:
        """Return the last number of every lease and the names that are done, from one listing of the folder."""
        files, mark = system.names(self.folder), len(_MARK)
        numbers = {file[:-2]: 1 for file in files if file[-2:] == ".1"}  # thousands end like this, few otherwise
        done = {file[:-mark] for file in files if file[-mark:] == _MARK}
        for file in [file for file in files if file[-2:] != ".1" and file[-mark:] != _MARK]:
            name, _, suffix = file.rpartition(".")
            if suffix.isdecimal():
                numbers[name] = max(int(suffix), numbers.get(name, 0))
        self._numbers = numbers
        return numbers, done

    def last(self, name: str) -> int:
        """Return the last number of one lease, 0 where nobody has taken it. The folder is listed once; from then on the
        numbers that follow are looked for, so that a lease among thousands costs what one among few does."""
        number = 0 if self._numbers is None else self._numbers.get(name, 0)
        if self._numbers is None or (number and not system.exists(_file(self.folder, name, number))):
            number = self.listing()[0].get(name, 0)
        while system.exists(_file(self.folder, name, number + 1)):
            number += 1
        if self._numbers is not None:
            self._numbers[name] = number
        return number

    def unmark(self, name: str) -> None:
        """Say no longer that a name is done."""
        system.remove(self.folder / f"{name}{_MARK}")

    def standing(self, name: str, last: int) -> Standing:
        """Return how the last holder of a lease stands."""
        return self._standing(_file(self.folder, name, last))

    def holder(self, name: str) -> Holder | None:
        """Return the holder, or None where the lease is free: never taken, given back, or held by a process known to be
        dead."""
        last = self.last(name)
        try:
            return _holder(_file(self.folder, name, last)) if last else None
        except FileNotFoundError:  # somebody removed the folder
            return None

    def _create(self, name: str, number: int, guarded: Path | None) -> Lease | None:
        path = _file(self.folder, name, number)
        if not system.create(path, _this_owner()):
            return None
        lease = Lease(path, number, guarded)
        keep(lease)
        return lease

    def _is_free(self, path: Path) -> bool:
        return self._standing(path) in ("free", "done", "stale")

    def _standing(self, path: Path) -> Standing:
        """A holder is silent where no beat has come by this machine's monotonic clock, counted from when it first saw
        the last beat: other machines' clocks differ, and clocks get set."""
        holder = _holder(path)
        if holder is None:
            return "done" if system.read(path)[0] == _FINISHED else "free"
        if holder.is_alive is not None:
            return "beating"
        now = self._clock()
        known, since = self._seen.get(path, (None, now))
        if known != holder.beat:
            self._seen[path] = (holder.beat, now)
            return "silent" if known is None else "beating"
        self._seen[path] = (holder.beat, since)
        return (
            "stale"
            if now - since >= (STALE_SECONDS if self._stale_seconds is None else self._stale_seconds)
            else "silent"
        )


@contextmanager
def checked_write(path: Path) -> Iterator[None]:
    """Wrap whatever makes a write visible, a rename or an append; raise LeaseLostError if this process has lost the run
    folder that contains the path."""
    leases = {lease.guarded: lease for lease in list(_HELD) if lease.guarded is not None}
    lease = next((leases[folder] for folder in path.absolute().parents if folder in leases), None)
    if lease is None:
        yield
        return
    with lease.writing():
        yield


class HeldLease(Protocol):
    """A right that lasts as long as its holder gives signs of life."""

    guarded: Path | None
    """The folder in which every write checks it first."""

    def beat(self) -> None:
        """Give a sign of life."""

    def writing(self) -> AbstractContextManager[None]:
        """Let no other process take over between a check and the end of a write."""


_HELD: dict[HeldLease, None] = {}
"""The leases of this process; a fork holds none of them."""
_beating: list[Thread] = []


def keep(lease: HeldLease) -> None:
    """Beat for a lease every few seconds from now on."""
    _HELD[lease] = None
    if not _beating:
        _beating.append(Thread(target=_beat_all, name="leases", daemon=True))
        _beating[0].start()


def drop(lease: HeldLease) -> None:
    """Beat no longer."""
    _HELD.pop(lease, None)


def _beat_all() -> None:
    while True:
        time.sleep(BEAT_SECONDS)
        for lease in list(_HELD):
            try:
                lease.beat()
            except FileNotFoundError:  # somebody removed the folder
                _HELD.pop(lease, None)
            except OSError:  # a shared disk that answers again later
                continue


def _forget() -> None:
    _HELD.clear()
    _beating.clear()


os.register_at_fork(after_in_child=_forget)


def _holder(path: Path) -> Holder | None:
    text, beat = system.read(path)
    if text in (_RELEASED, _FINISHED):
        return None
    owner = _owner_of(text)
    is_alive = system.is_alive(owner) if owner is not None else None
    return None if is_alive is False else Holder(owner, is_alive, beat)


def _this_owner() -> str:
    return json.dumps(asdict(system.this_process()))


def _owner_of(text: str) -> Owner | None:
    try:
        return Owner(**parse_json(text, "its owner"))
    except (ValueError, TypeError):
        return None


def _file(folder: Path, name: str, number: int) -> Path:
    return folder / f"{name}.{number}"
