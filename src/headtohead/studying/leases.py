"""Who does which run, among workers that share a folder and nothing else.

A lease is a file, <run>.<number>, that its maker alone could create. Its time of change is the heartbeat. Who finds the
last one dead creates the next number, and again only one can: no lease is ever removed, so none is lost in between.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from headtohead.tracking.liveness import Owner

STALE_SECONDS = 120.0
BEAT_SECONDS = 5.0
_GIVEN_BACK = "given back"


@dataclass
class Lease:
    """The right to do one run, as long as it is beaten and nobody took it over."""

    path: Path
    number: int
    last_beat: float

    def beat(self) -> bool:
        """A sign of life; False where another worker holds the run by now, because this one was silent too long."""
        if (now := time.monotonic()) - self.last_beat >= BEAT_SECONDS:
            os.utime(self.path)
            self.last_beat = now
        return not _file(self.path.parent, self.path.stem, self.number + 1).exists()

    def give_back(self) -> None:
        self.path.write_text(_GIVEN_BACK, encoding="utf-8")


class Leases:
    """Those of one study, as one worker sees them."""

    def __init__(
        self, folder: Path, *, stale_seconds: float = STALE_SECONDS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.folder, self._stale, self._clock = folder, stale_seconds, clock
        self._seen: dict[Path, tuple[int, float]] = {}

    def take(self, run: str) -> Lease | None:
        """None where another worker holds the run, or was quicker."""
        self.folder.mkdir(parents=True, exist_ok=True)
        last = self._last(run)
        if last and not self._is_free(_file(self.folder, run, last)):
            return None
        path = _file(self.folder, run, last + 1)
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
        except FileExistsError:
            return None
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(asdict(Owner.this_process()), file)
        return Lease(path, last + 1, time.monotonic())

    def is_held(self, run: str) -> bool:
        last = self._last(run)
        return bool(last) and not self._is_free(_file(self.folder, run, last))

    def _last(self, run: str) -> int:
        found = (path for path in self.folder.glob(f"{run}.*") if path.stem == run)
        numbers = [int(path.suffix[1:]) for path in found if path.suffix[1:].isdigit()]
        return max(numbers, default=0)

    def _is_free(self, path: Path) -> bool:
        text = path.read_text(encoding="utf-8")
        if text == _GIVEN_BACK:
            return True
        lives = _owner_lives(text)
        return not lives if lives is not None else self._is_silent(path)

    def _is_silent(self, path: Path) -> bool:
        """By this machine's own clock, from when it first saw the last beat: clocks of machines differ."""
        beat, now = path.stat().st_mtime_ns, self._clock()
        known, since = self._seen.get(path, (None, now))
        if known != beat:
            since = now
        self._seen[path] = (beat, since)
        return now - since >= self._stale


def _owner_lives(text: str) -> bool | None:
    """None where it cannot be known: another machine's process, or a lease whose first line is yet to be written."""
    try:
        return Owner(**json.loads(text)).lives()
    except (ValueError, TypeError):
        return None


def _file(folder: Path, run: str, number: int) -> Path:
    return folder / f"{run}.{number}"
