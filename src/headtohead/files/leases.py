"""Leases determine who writes a run folder and who does which run of a study, among processes that share only a folder.

A lease is a file, <name>.<number>, which only one process can create; the number is its token. A thread of the holder
touches it every few seconds. Whoever finds the last one dead creates the next number, and again only one can: no lease
is ever removed, so none is lost in between. A holder checks before every write that no higher number exists.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Thread

from headtohead.errors import UsageError
from headtohead.files import disk_operations
from headtohead.files.disk_operations import OutOfDisk, is_full
from headtohead.files.process_liveness import Owner
from headtohead.files.safe_read import DamagedFile, parse_json, read_text

STALE_SECONDS = 60.0
"""A process of another machine cannot be looked up: it counts as dead after this long without a sign of life."""
BEAT_SECONDS = 5.0
_LOCK_SECONDS = 5.0
"""The longest that a taker waits for the write at hand; a holder that was stopped within one is dead or asleep."""
_POLL_SECONDS = 0.01
_RELEASED = "given back"


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

    def beat(self) -> None:
        """Touch the file, as long as it counts."""
        if self.is_held():
            os.utime(self.path)

    def is_held(self) -> bool:
        """Return False once another process has taken over."""
        self.is_lost = self.is_lost or self._next().exists()
        return not self.is_lost

    def check(self) -> None:
        """Raise LeaseLostError once another process has taken over."""
        if not self.is_held():
            owner = _owner_of(_text(self._next()))
            raise LeaseLostError(
                f"{self.guarded or self.path} was taken over by {owner or 'another process'}: this process writes "
                "nothing more to it and ends"
            )

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Let no other process take over between the check and the end of the write."""
        with _locked(self.path):
            self.check()
            yield

    def _next(self) -> Path:
        return _file(self.path.parent, self.path.stem, self.number + 1)

    def release(self) -> None:
        _HELD.pop(self, None)
        if self.is_held():
            self.path.write_text(_RELEASED, encoding="utf-8")


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
        age = max(0.0, time.time() - self.beat / 1e9)
        seen = f"{age:.0f} seconds" if age < 120 else f"{age / 60:.0f} minutes"
        return f"{self.owner or 'a process that is just starting'} (last sign of life {seen} ago)"


class Leases:
    """The leases in one folder, as one process sees them."""

    def __init__(
        self, folder: Path, *, stale_seconds: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.folder, self._clock = folder, clock
        self._stale_seconds = stale_seconds
        self._seen: dict[Path, tuple[int, float]] = {}

    def take(self, name: str, *, guarded: Path | None = None, take_over: bool = False) -> Lease | None:
        """Take a lease, or return None if another process holds it or was quicker; take_over ignores a living
        holder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        last = self._last(name)
        if not last:
            return self._create(name, 1, guarded)
        path = _file(self.folder, name, last)
        if not take_over and not self._is_free(path):
            return None
        with _locked(path):  # no write of the last holder is under way
            return self._create(name, last + 1, guarded)

    def holder(self, name: str) -> Holder | None:
        """Return the holder, or None where the lease is free: never taken, given back, or held by a process known to be
        dead."""
        last = self._last(name)
        return _holder(_file(self.folder, name, last)) if last else None

    def _create(self, name: str, number: int, guarded: Path | None) -> Lease | None:
        path = _file(self.folder, name, number)
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            return None
        try:
            disk_operations.system.write(handle, json.dumps(asdict(Owner.this_process())).encode())
        except OSError as error:
            path.unlink(missing_ok=True)
            if is_full(error):
                raise OutOfDisk(path) from error
            raise
        finally:
            os.close(handle)
        lease = Lease(path, number, guarded)
        _keep(lease)
        return lease

    def _last(self, name: str) -> int:
        results = (path for path in self.folder.glob(f"{name}.*") if path.stem == name)
        numbers = [int(path.suffix[1:]) for path in results if path.suffix[1:].isdigit()]
        return max(numbers, default=0)

    def _is_free(self, path: Path) -> bool:
        holder = _holder(path)
        return holder is None or (holder.is_alive is None and self._is_silent(path, holder.beat))

    def _is_silent(self, path: Path, beat: int) -> bool:
        """Return whether no beat has come for too long by this machine's monotonic clock, counted from when it first
        saw the last beat: other machines' clocks differ, and clocks get set."""
        now = self._clock()
        known, since = self._seen.get(path, (None, now))
        if known != beat:
            since = now
        self._seen[path] = (beat, since)
        return now - since >= (STALE_SECONDS if self._stale_seconds is None else self._stale_seconds)


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


_HELD: dict[Lease, None] = {}
"""The leases of this process; a fork holds none of them."""
_beating: list[Thread] = []


def _keep(lease: Lease) -> None:
    _HELD[lease] = None
    if not _beating:
        _beating.append(Thread(target=_beat_all, name="leases", daemon=True))
        _beating[0].start()


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


@contextmanager
def _locked(path: Path) -> Iterator[None]:
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


def _holder(path: Path) -> Holder | None:
    text = _text(path)
    if text == _RELEASED:
        return None
    owner = _owner_of(text)
    is_alive = owner.is_alive() if owner is not None else None
    return None if is_alive is False else Holder(owner, is_alive, path.stat().st_mtime_ns)


def _owner_of(text: str) -> Owner | None:
    try:
        return Owner(**parse_json(text, "its owner"))
    except (ValueError, TypeError):
        return None


def _text(path: Path) -> str:
    """Parse a lease; text that is none names no owner."""
    try:
        return read_text(path)
    except DamagedFile:
        return ""


def _file(folder: Path, name: str, number: int) -> Path:
    return folder / f"{name}.{number}"
