"""Runs below a folder, answered as their records answer: the file system says which records changed, and only those are
read.

A record is read again whenever its inode, size or one of its times differs from what they were when it was read. Clocks
of file systems are coarse: two writes within a tick look alike. So a record that changed a moment ago is read again
until it has looked the same for a while; only then does the index rely on it.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypeVar

from headtohead.errors import UsageError
from headtohead.records.index.index_file import IndexFile, StoredRow, index_path
from headtohead.records.index.stored_run import (
    ParsedRun,
    SectionCache,
    hash_of,
    hashes_of,
    parse_runs,
    read_stored,
    restore_record,
    restore_summary,
    store_problem,
)
from headtohead.records.metrics_tail import RunTail, RunTails
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import DIED, RECORD, RunFolder
from headtohead.records.run_summary import UNREADABLE, RunSummary

_PAGE = 400
"""Runs at once: memory holds no more of them."""
_OLD_SECONDS = 600.0
"""A record that was last changed this long ago is relied upon at once; clocks of machines differ by less."""
_SAME_SECONDS = 2.0
"""A younger one is relied upon after it has looked the same this long: no file system's tick is longer."""


@dataclass(frozen=True)
class UnreadRecord:
    """A record that cannot be read, and why."""

    path: str
    problem: str


@dataclass
class IndexWork:
    """Counts of what an index did so far."""

    listed: int = 0
    """Records whose state was asked of the file system."""
    opened: int = 0
    """Records that were opened and read."""
    fetched: int = 0
    """Rows of the index."""


class RunIndex:
    """An index for one thread at a time; `file` is another file than the user's own, None for none at all."""

    def __init__(self, file: Path | str | None = "own", *, clock: Callable[[], float] = time.time) -> None:
        self._file = IndexFile(index_path() if isinstance(file, str) else file)
        self._clock = clock
        self._sections = SectionCache()
        self.tails = RunTails(self._file)
        self.work = IndexWork()

    def __enter__(self) -> RunIndex:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def look(self, root: Path | str) -> list[tuple[str, FileState]]:
        """Return the runs at or below a folder by path, with the state of each record; forget those that are gone."""
        folder = str(Path(root).absolute())
        known = self._file.paths_below(folder)
        seen = dict(record_files(folder, known))
        if gone := known - seen.keys():
            self._file.forget(gone)
        self._file.note_use(folder, self._clock())
        self.work.listed += len(seen)
        return sorted(seen.items())

    def summaries(self, root: Path | str) -> Iterator[RunSummary]:
        """Yield every run at or below a folder by path, also those whose record cannot be read."""
        return self.summaries_of(self.look(root))

    def summaries_of(self, seen: Sequence[tuple[str, FileState]]) -> Iterator[RunSummary]:
        """Yield the runs of a look."""
        for page in _pages(seen):
            runs = self._runs(page, with_records=False)
            tails = self.tails.read([path for path, run in runs.items() if run.status == "running"])
            for path, _ in page:
                summary = restore_summary(path, runs[path], self._sections)
                yield with_life(summary, tails[path]) if path in tails else summary

    def records(self, root: Path | str) -> Iterator[RunRecord | UnreadRecord]:
        """Yield every record at or below a folder by path. Records share the objects of equal sections: read them, and
        copy what is to be changed."""
        for page in _pages(self.look(root)):
            runs = self._runs(page, with_records=True)
            for path, _ in page:
                run = runs[path]
                if run.status == UNREADABLE:
                    yield UnreadRecord(path, run.record)
                elif run.status == "running":
                    yield _read_now(path)
                else:
                    yield restore_record(path, run, self._sections)

    def _runs(self, page: Sequence[tuple[str, FileState]], *, with_records: bool) -> dict[str, ParsedRun]:
        """Return each run of a page; those that the index lacks, or has of an earlier record, are read."""
        self._sections.limit()
        rows = self._file.rows([path for path, _ in page], with_records=with_records)
        self.work.fetched += len(rows)
        sure = [
            row
            for path, state in page
            if (row := rows.get(path)) is not None and row.is_sure and row.state == _text(state)
        ]
        runs = dict(zip([row.path for row in sure], parse_runs(sure), strict=True))
        lacking = self._sections.lacking(hashes_of(runs.values()))
        for keys in _pages(sorted(lacking)):
            self._sections.add(self._file.sections(keys, lambda key, text: hash_of(text) == key))
        if damaged := self._sections.lacking(lacking):
            runs = {path: run for path, run in runs.items() if damaged.isdisjoint(hashes_of([run]))}
        fresh: list[StoredRow] = []
        texts: dict[str, str] = {}
        for path, state in page:
            if path not in runs:
                row = self._fresh(path, state, rows.get(path), texts)
                fresh.append(row)
                runs[path] = parse_runs([row])[0]
        if fresh:
            self._file.put(fresh, texts.items())
            self._sections.add(texts)
        return runs

    def _fresh(self, path: str, state: FileState, row: StoredRow | None, sections: dict[str, str]) -> StoredRow:
        """Read a record, and decide whether its state will tell when it changes."""
        self.work.opened += 1
        now = self._clock()
        is_repeatable = True
        try:
            stored = read_stored(path, self._sections)
        except OSError as error:  # of the file system, not of the file: the next look may find it readable
            is_repeatable = False
            stored = store_problem(path, str(error))
        except UsageError as error:
            stored = store_problem(path, str(error))
        sections.update(stored.sections)
        first_seen = row.first_seen if row is not None and row.state == _text(state) else now
        is_old = now - max(state.changed, state.modified) / 1e9 > _OLD_SECONDS
        is_settled = is_old or now - first_seen >= _SAME_SECONDS
        is_sure = is_repeatable and is_settled and state_of(path) == state
        own = stored.status, stored.summary, stored.apart, stored.record
        return StoredRow(path, _text(state), first_seen, int(is_sure), *own)


def with_life(summary: RunSummary, tail: RunTail) -> RunSummary:
    """Return the summary of a run that was running when its record was written, as it is now."""
    progress = dict(vars(tail.progress)) if tail.progress is not None else summary.progress
    if RunFolder(Path(summary.path)).is_live():
        return replace(summary, progress=progress, latest=tail.latest)
    return replace(summary, status="interrupted", reason=DIED, progress=progress, latest=tail.latest)


def _read_now(path: str) -> RunRecord | UnreadRecord:
    try:
        return RunFolder(Path(path)).read_record()
    except (UsageError, OSError) as error:
        return UnreadRecord(path, str(error))


def _text(state: FileState) -> str:
    return f"{state.inode} {state.size} {state.modified} {state.changed} {int(state.is_link)}"


_Item = TypeVar("_Item")


def _pages(values: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    for start in range(0, len(values), _PAGE):
        yield values[start : start + _PAGE]


class FileState(NamedTuple):
    """The file system's facts of a file: whoever writes to it, or puts another in its place, changes some of them."""

    inode: int
    size: int
    modified: int
    """The modification time in nanoseconds; anybody can set it back."""
    changed: int
    """The time at which the file, its name or its times were last changed, in nanoseconds: nobody can set it back."""
    is_link: bool


def record_files(root: str, known: Container[str] = ()) -> Iterator[tuple[str, FileState]]:
    """Yield each run folder at or below `root`, as `find_runs` does, with the state of its record.

    A `known` folder that still holds a record is not listed, since nothing else in it is looked at: one call to the
    file system each, instead of three.
    """
    pending = [root]
    while pending:
        folder = pending.pop()
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError:
            continue
        if any(entry.name == RECORD and not _leads_to_folder(entry) for entry in entries):
            if (state := state_of(folder)) is not None:
                yield folder, state
            continue
        for entry in entries:
            if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
                continue
            if entry.path in known and (state := state_of(entry.path)) is not None:
                yield entry.path, state
            else:
                pending.append(entry.path)


def _leads_to_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads round in circles
        return False


def state_of(folder: str) -> FileState | None:
    """Return the state of the record in a folder, of its target where it is a link; None where there is no file."""
    path = f"{folder}/{RECORD}"
    try:
        facts = os.lstat(path)
        is_link = stat.S_ISLNK(facts.st_mode)
        if is_link:
            with suppress(OSError):  # a link to nothing is a record that cannot be read
                facts = Path(path).stat()
    except OSError:
        return None
    if stat.S_ISDIR(facts.st_mode):
        return None
    return FileState(facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, is_link)
