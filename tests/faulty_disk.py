"""Disks for tests: one that is full, one that counts, and one that remembers what a power cut could leave of it."""

from __future__ import annotations

import errno
import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import Buffer, override

from headtohead.files.disk_operations import Disk


class UnsyncedDisk(Disk):
    """Leaves to the system when its bytes and names reach the hardware."""

    @override
    def sync(self, handle: int) -> None:
        """Go on at once."""

    @override
    def sync_folder(self, folder: Path) -> None:
        """Go on at once."""


class FullDisk(Disk):
    """Has no room for files whose path holds one of these texts, from the n-th write to them on."""

    def __init__(self, *names: str, after: int = 0) -> None:
        self._names, self._left = names, after
        self.refused = 0

    @override
    def write(self, handle: int, data: Buffer) -> int:
        path = _path(handle)
        if any(name in path for name in self._names):
            if self._left <= 0:
                self.refused += 1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._left -= 1
        return super().write(handle, data)


@dataclass(frozen=True)
class Operation:
    """One thing that was asked of the disk."""

    kind: str
    path: str
    data: bytes = b""
    """The bytes that were written, or for a rename the new name."""


class RecordingDisk(Disk):
    """Does everything, and remembers it in order."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    @override
    def write(self, handle: int, data: Buffer) -> int:
        written = super().write(handle, data)
        self._note("write", _path(handle), bytes(data)[:written])
        return written

    @override
    def sync(self, handle: int) -> None:
        super().sync(handle)
        self._note("sync", _path(handle))

    @override
    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self._note("rename", str(source), str(target).encode())

    @override
    def sync_folder(self, folder: Path) -> None:
        super().sync_folder(folder)
        self._note("sync_folder", str(folder))

    def _note(self, kind: str, path: str, data: bytes = b"") -> None:
        self.operations.append(Operation(kind, path, data))


def states_after_a_power_cut(operations: list[Operation]) -> Iterator[dict[str, bytes]]:
    """Every folder that the operations may leave, cut anywhere, by the names in it.

    Until a file is synced, a cut may take any end of what was written to it; until its folder is synced, a cut may take
    the last renames in it or leave them, each by itself. Whatever was synced stays.
    """
    for end in range(len(operations) + 1):
        done = operations[:end]
        for lost in _subsets(_unsynced_renames(done)):
            yield from _replayed(done, lost)


def _unsynced_renames(done: list[Operation]) -> list[int]:
    last_sync = max((at for at, one in enumerate(done) if one.kind == "sync_folder"), default=-1)
    return [at for at, one in enumerate(done) if one.kind == "rename" and at > last_sync]


def _subsets(numbers: list[int]) -> Iterator[frozenset[int]]:
    for size in range(len(numbers) + 1):
        yield from map(frozenset, itertools.combinations(numbers, size))


def _replayed(done: list[Operation], lost: frozenset[int]) -> Iterator[dict[str, bytes]]:
    """Yield the disk's states with all unsynced bytes, with none of them, and with half."""
    for share in (1.0, 0.5, 0.0):
        safe: dict[str, bytes] = {}
        loose: dict[str, bytes] = {}
        names: dict[str, str] = {}
        for at, one in enumerate(done):
            if one.kind == "write":
                loose[one.path] = loose.get(one.path, b"") + one.data
                names.setdefault(one.path, one.path)
            elif one.kind == "sync":
                safe[one.path] = safe.get(one.path, b"") + loose.pop(one.path, b"")
                names.setdefault(one.path, one.path)
            elif one.kind == "rename" and at not in lost:
                names.pop(one.path, None)
                names[one.data.decode()] = one.path
        yield {
            name: safe.get(file, b"") + (rest := loose.get(file, b""))[: int(len(rest) * share)]
            for name, file in names.items()
        }


def _path(handle: int) -> str:
    return str(Path(f"/proc/self/fd/{handle}").readlink())
