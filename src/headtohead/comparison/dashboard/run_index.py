"""Every run below a folder, and what changed since one last asked: only what was written anew is read again."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headtohead.comparison.dashboard.metrics_tail import ReadPosition, read_on
from headtohead.comparison.dashboard.run_facts import current_facts, fixed_facts
from headtohead.errors import UsageError
from headtohead.records.record import Progress, RunRecord
from headtohead.records.run_folder import RECORD, RunFolder, find_runs
from headtohead.records.strict_json import RecordError

_SHORTEST = 0.5
"""Seconds between two looks at the disk, however many pages ask."""
_SHARE = 10
"""After each look, a rest this many times as long as it took: hundreds of runs cost a tenth of a core at most."""


@dataclass
class RunEntry:
    """One run, as far as it was read."""

    folder: RunFolder
    seen: tuple[int, int, int] | None = None
    """Of record.json: another one means that it was written anew."""
    record: RunRecord | None = None
    fixed_facts: dict[str, Any] = field(default_factory=dict)
    current_facts: dict[str, Any] = field(default_factory=dict)
    fixed_since: int = 0
    """The version at which each part became what it is."""
    current_since: int = 0
    position: ReadPosition = field(default_factory=ReadPosition)
    progress: Progress | None = None
    latest: dict[str, float | None] = field(default_factory=dict)


class RunIndex:
    """May be asked by many threads at once."""

    def __init__(self, root: Path, *, shortest: float = _SHORTEST, share: float = _SHARE) -> None:
        self.root = root.resolve()
        self._shortest, self._share = shortest, share
        self._lock = threading.Lock()
        self._name = secrets.token_hex(4)  # an answer of another process says nothing about this one's versions
        self._version = 0
        self._next = 0.0
        self._entries: dict[str, RunEntry] = {}

    def changes(self, since: str) -> dict[str, Any]:
        """Runs that differ from what the token `since` of an earlier answer knew; all keys, so that gone ones show."""
        with self._lock:
            self._refresh()
            name, _, version = since.partition(".")
            known = int(version) if name == self._name and version.isdigit() else -1
            changed = {
                key: _changes(entry, known) for key, entry in self._entries.items() if entry.current_since > known
            }
            return {"now": f"{self._name}.{self._version}", "keys": list(self._entries), "changed": changed}

    def entry(self, key: str) -> RunEntry | None:
        """A run that was found below the folder; None for any other text."""
        with self._lock:
            if not self._entries:
                self._refresh()
            return self._entries.get(key)

    def records(self) -> list[RunRecord]:
        """Return the records that could be read."""
        with self._lock:
            self._refresh()
            return [entry.record for entry in self._entries.values() if entry.record is not None]

    def _refresh(self) -> None:
        start = time.monotonic()
        if start < self._next:
            return
        runs = {self._key(run): run for run in find_runs(self.root)}
        self._version += 1
        self._entries = {key: self._entries.get(key) or RunEntry(run) for key, run in runs.items()}
        for entry in self._entries.values():
            self._look(entry)
        end = time.monotonic()
        self._next = end + max(self._shortest, self._share * (end - start))

    def _key(self, run: RunFolder) -> str:
        return run.path.relative_to(self.root).as_posix()

    def _look(self, entry: RunEntry) -> None:
        try:
            facts = (entry.folder.path / RECORD).stat()
        except OSError:
            return  # taken away at this moment: the next look misses it
        seen = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
        if seen != entry.seen:
            entry.seen, entry.fixed_since = seen, self._version
            self._read_record(entry)
        self._read_on(entry)
        now = self._current_facts(entry)
        if now != entry.current_facts or entry.fixed_since == self._version:
            entry.current_facts, entry.current_since = now, self._version

    def _read_record(self, entry: RunEntry) -> None:
        name = entry.folder.id
        try:
            if not is_inside(self.root, entry.folder.path / RECORD):
                raise RecordError(f"{RECORD} is a link that leads out of the folder: it is not read")
            entry.record = entry.folder.read_record_as_written()
            entry.fixed_facts = fixed_facts(entry.record)
        except (UsageError, OSError) as error:
            entry.record = None
            entry.fixed_facts = {**fixed_facts(RunRecord(id=name)), "unreadable": str(error)}

    def _read_on(self, entry: RunEntry) -> None:
        path = entry.folder.metrics_file.path
        try:
            facts = path.stat()
        except OSError:
            return
        if (facts.st_ino, facts.st_size) == (entry.position.file, entry.position.offset) or not is_inside(
            self.root, path
        ):
            return
        piece = read_on(path, entry.position)
        if piece.anew:
            entry.latest, entry.progress = {}, None
        entry.position = piece.position
        for point in piece.latest():
            entry.latest[point.name] = point.value
            entry.progress = point.progress

    def _current_facts(self, entry: RunEntry) -> dict[str, Any]:
        record = entry.record
        if record is None:
            return {**current_facts("failed", entry.fixed_facts["unreadable"], Progress(), {}), "status": "unreadable"}
        status, reason = entry.folder.current_status(record)
        progress = record.progress if entry.progress is None or status == "finished" else entry.progress
        return current_facts(status, reason, progress, entry.latest)


def _changes(entry: RunEntry, known: int) -> dict[str, Any]:
    return {**entry.current_facts, **(entry.fixed_facts if entry.fixed_since > known else {})}


def is_inside(root: Path, path: Path) -> bool:
    """Return whether `path`, with links followed, is `root` or below it."""
    return path.resolve().is_relative_to(root.resolve())


def files_below(root: Path, folder: Path, suffixes: tuple[str, ...]) -> Iterator[Path]:
    """Files of these kinds directly in `folder`, by name."""
    if folder.is_dir() and is_inside(root, folder):
        for path in sorted(folder.iterdir()):
            if path.suffix in suffixes and path.is_file() and is_inside(root, path):
                yield path


def folders_in(root: Path, folder: Path) -> list[Path]:
    """Return its own folders, by name; hidden ones are ignored."""
    if not (folder.is_dir() and is_inside(root, folder)):
        return []
    folders = [path for path in folder.iterdir() if not path.name.startswith(".") and path.is_dir()]
    return sorted(path for path in folders if is_inside(root, path))
