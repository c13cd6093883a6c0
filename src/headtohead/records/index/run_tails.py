"""The latest numbers of runs, from their metrics.csv: each file is read on from where it was left, also by the next
process."""

from __future__ import annotations

import json
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headtohead.records.index.index_file import IndexFile
from headtohead.records.metrics_tail import ReadPosition, read_on
from headtohead.records.record import Progress
from headtohead.records.run_folder import METRICS


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
    latest = {} if piece.anew else dict(tail.latest)
    progress = None if piece.anew else tail.progress
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
