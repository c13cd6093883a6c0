"""metrics.csv read on from where one stopped, also by the next process: a file that grows is never read twice."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headtohead.files.safe_read import DamagedFile, open_regular
from headtohead.records.index.index_file import IndexFile
from headtohead.records.metrics_file import COLUMNS
from headtohead.records.record import Progress
from headtohead.records.run_folder import METRICS

_HEADER = ",".join(COLUMNS).encode()


@dataclass(frozen=True)
class ReadPosition:
    """A read position says how far a file was read."""

    file: int = 0
    """The file's own number: a resumed run rewrites its metrics, into another file of the same name."""
    offset: int = 0


@dataclass(frozen=True)
class LoggedPoint:
    """One number of a run."""

    name: str
    progress: Progress
    value: float | None
    """Return None where it is not a number, or infinite."""


@dataclass(frozen=True)
class MetricsChunk:
    """Whole lines of the file, from one place to the next."""

    position: ReadPosition
    """The position at which to read on."""
    restarted: bool
    """These lines are the file's first: what was read before no longer holds."""
    text: bytes

    def points(self, only: str | None = None) -> Iterator[LoggedPoint]:
        """Yield the points in the order of the file, optionally of one metric only."""
        for line in self.text.splitlines() if only is None else self._lines_with(b"," + only.encode() + b","):
            if (point := point_of(line)) is not None:
                yield point

    def rows(self, only: str) -> Iterator[tuple[int, float | None, bytes]]:
        """Yield step and value of each point of one metric, with the line that says the rest: `point_of` reads it."""
        for line in self._lines_with(b"," + only.encode() + b","):
            cells = line.split(b",")
            try:
                value = float(cells[-1])
                step = int(cells[0])
            except ValueError:
                continue
            if len(cells) == len(COLUMNS):
                yield step, value if math.isfinite(value) else None, line

    def _lines_with(self, part: bytes) -> Iterator[bytes]:
        """Yield the lines that hold this part, without splitting the others, which are nearly all of a long file."""
        position = self.text.find(part)
        while position >= 0:
            start, end = self.text.rfind(b"\n", 0, position) + 1, self.text.find(b"\n", position)
            end = len(self.text) if end < 0 else end
            yield self.text[start:end].rstrip(b"\r")
            position = self.text.find(part, end)

    def latest(self) -> list[LoggedPoint]:
        """Return the last one of each metric, in the order of the file; the others are not looked at closely."""
        last: dict[bytes, bytes] = {}
        for line in self.text.splitlines():
            name = line.rsplit(b",", 2)[-2:-1]
            if name:
                last.pop(name[0], None)
                last[name[0]] = line
        return [point for line in last.values() if (point := point_of(line)) is not None]


def point_of(line: bytes) -> LoggedPoint | None:
    """Return the point of a line; None for the header, and for what is not a line of metrics, such as zeros that a
    power failure left."""
    cells = line.split(b",")
    if line == _HEADER or len(cells) != len(COLUMNS):
        return None
    step, epoch, tokens, flops, seconds, name, text = cells
    try:
        value = float(text)
        progress = Progress(int(step), int(epoch), int(tokens), float(flops), float(seconds))
        return LoggedPoint(name.decode(), progress, value if math.isfinite(value) else None)
    except ValueError:
        return None


def read_on(path: Path, position: ReadPosition) -> MetricsChunk:
    """Read what was added since; a line that is still being written is left for the next time."""
    try:
        handle = open_regular(path)
    except (OSError, DamagedFile):
        return MetricsChunk(ReadPosition(), restarted=position != ReadPosition(), text=b"")
    with handle:
        facts = os.fstat(handle.fileno())
        restarted = position.file != facts.st_ino or position.offset > facts.st_size
        start = 0 if restarted else position.offset
        handle.seek(start)
        read = handle.read(facts.st_size - start)
    whole = read[: read.rfind(b"\n") + 1]
    return MetricsChunk(ReadPosition(facts.st_ino, start + len(whole)), restarted, whole)


@dataclass
class RunTail:
    """The last value of each metric of a run, and how far it has come."""

    position: ReadPosition = field(default_factory=ReadPosition)
    progress: Progress | None = None
    latest: dict[str, float | None] = field(default_factory=dict)


class RunTails:
    """Tails by run, as far as they were read; those of an index are stored in it."""

    def __init__(self, file: IndexFile) -> None:
        self._file = file

    def read(self, paths: Sequence[str]) -> dict[str, RunTail]:
        """Return the tails of these runs as their files are now."""
        stored = self._file.tails(paths) if paths else {}
        tails, news = {}, []
        for path in paths:
            tail = _restored(stored[path]) if path in stored else RunTail()
            before = tail.position
            tails[path] = _read_on(path, tail)
            if tails[path].position != before:
                news.append((path, _text(tails[path])))
        if news:
            self._file.put_tails(news)
        return tails


def _read_on(path: str, tail: RunTail) -> RunTail:
    file = Path(path) / METRICS
    try:
        facts = file.lstat()
    except OSError:
        return RunTail()
    if stat.S_ISLNK(facts.st_mode):  # it may lead out of the folder that one looks at
        return RunTail()
    if (facts.st_ino, facts.st_size) == (tail.position.file, tail.position.offset):
        return tail
    piece = read_on(file, tail.position)
    latest = {} if piece.restarted else dict(tail.latest)
    progress = None if piece.restarted else tail.progress
    for point in piece.latest():
        latest[point.name] = point.value
        progress = point.progress
    return RunTail(piece.position, progress, latest)


def _text(tail: RunTail) -> str:
    progress = None if tail.progress is None else vars(tail.progress)
    return json.dumps([[tail.position.file, tail.position.offset], progress, tail.latest])


def _restored(text: str) -> RunTail:
    position, progress, latest = json.loads(text)
    return RunTail(ReadPosition(*position), None if progress is None else Progress(**progress), latest)
