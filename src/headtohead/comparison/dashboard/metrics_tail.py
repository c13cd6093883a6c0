"""metrics.csv read on from where one stopped: a file that grows is never read twice."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headtohead.files.safe_read import DamagedFile, open_regular
from headtohead.records.metrics_file import COLUMNS
from headtohead.records.record import Progress

_HEADER = ",".join(COLUMNS).encode()


@dataclass(frozen=True)
class ReadPosition:
    """A read position says how far a file was read."""

    file: int = 0
    """The file's own number: a resumed run writes its metrics anew, into another file of the same name."""
    offset: int = 0


@dataclass(frozen=True)
class LoggedPoint:
    """One number of a run."""

    name: str
    progress: Progress
    value: float | None
    """Return None where it is no number, or infinite."""


@dataclass(frozen=True)
class MetricsChunk:
    """Whole lines of the file, from one place to the next."""

    position: ReadPosition
    """Where to go on."""
    anew: bool
    """These lines are the file's first: what was read before no longer holds."""
    text: bytes

    def points(self, only: str | None = None) -> Iterator[LoggedPoint]:
        """Yield the points in the order of the file, optionally of one metric only."""
        needle = None if only is None else b"," + only.encode() + b","
        for line in self.text.splitlines():
            if (needle is None or needle in line) and (point := _point(line)) is not None:
                yield point

    def latest(self) -> list[LoggedPoint]:
        """Return the last one of each metric, in the order of the file; the others are not looked at closely."""
        last: dict[bytes, bytes] = {}
        for line in self.text.splitlines():
            name = line.rsplit(b",", 2)[-2:-1]
            if name:
                last.pop(name[0], None)
                last[name[0]] = line
        return [point for line in last.values() if (point := _point(line)) is not None]


def _point(line: bytes) -> LoggedPoint | None:
    """Return None for the header, and for what is no line of metrics, such as zeros that a power failure left."""
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
        return MetricsChunk(ReadPosition(), anew=position != ReadPosition(), text=b"")
    with handle:
        facts = os.fstat(handle.fileno())
        anew = position.file != facts.st_ino or position.offset > facts.st_size
        start = 0 if anew else position.offset
        handle.seek(start)
        read = handle.read(facts.st_size - start)
    whole = read[: read.rfind(b"\n") + 1]
    return MetricsChunk(ReadPosition(facts.st_ino, start + len(whole)), anew, whole)
