"""Tokenized shards on disk: made when first needed, each by one process, removed when there are too many."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from headtohead.data.cache.arrow_columns import Table, ragged, read_table, write_table
from headtohead.data.cache.prepared_content import disk_full_message, exclusive_lock
from headtohead.files.atomic_write import move_into_place

Make = Callable[[int], Table | None]
"""A function from the number of a shard to its documents as tokens; None where it has none."""
_TURNS = 64
"""Locks that the units share: two that share one are made one after the other."""
_SIZES = "sizes"
_WHOLE = "."
"""Ends a line of sizes: one that a killed process began has none, and is passed over."""
_UNFINISHED = ".unfinished"
_OPEN = 256
"""Units that a process keeps mapped."""


class ShardCache:
    """The cached shards of one corpus, shared by all processes of a machine."""

    def __init__(self, folder: Path, make: Make, *, max_bytes: int, sized_by: str = "tokens") -> None:
        """Set up the cache; `max_bytes` should fit what is in use at once. `sized_by` is the column whose
        values are counted."""
        self._folder, self._make, self._max_bytes, self._sized_by = folder, make, max_bytes, sized_by
        self._open: OrderedDict[int, Table] = OrderedDict()
        self._sizes: dict[int, int] = {}
        self._read_up_to = 0
        self._prefetcher = Prefetcher(self._put_if_free)
        folder.mkdir(parents=True, exist_ok=True)
        self._sweep()

    def table(self, shard: int) -> Table:
        """Return the documents of a non-empty shard, as a view of the file."""
        if shard not in self._open:
            self._open[shard] = self._from_disk(shard)
            if len(self._open) > _OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(shard)
        return self._open[shard]

    def size(self, shard: int) -> int:
        """Return the number of tokens, which is remembered when the tokens are gone."""
        if shard not in self._sizes:
            self._read_sizes()
        if shard not in self._sizes:
            self._put(shard)
            self._read_sizes()
        return self._sizes[shard]

    def known_sizes(self) -> dict[int, int]:
        self._read_sizes()
        return dict(self._sizes)

    def prefetch(self, shards: Iterable[int]) -> None:
        """Announce shards that will be needed soon: a thread makes them meanwhile."""
        self._prefetcher.add(shard for shard in shards if shard not in self._open and not self._path(shard).exists())

    def _from_disk(self, shard: int) -> Table:
        import pyarrow as pa

        path = self._path(shard)
        while True:
            try:
                table = read_table(path)
                os.utime(path)  # the least recently used go first
                return table
            except FileNotFoundError:  # not made yet, or removed a moment ago
                self._put(shard)
                assert self.size(shard) > 0, "a unit without documents has no rows"
            except pa.ArrowException:  # damaged
                path.unlink(missing_ok=True)

    def _put(self, shard: int) -> None:
        with exclusive_lock(self._lock_file(shard)):
            self._put_alone(shard)

    def _put_if_free(self, shard: int) -> None:
        """Make a shard unless another process does."""
        with suppress(TimeoutError), exclusive_lock(self._lock_file(shard), wait=False):
            self._put_alone(shard)

    def _put_alone(self, shard: int) -> None:
        path = self._path(shard)
        if path.exists():
            return
        table = self._make(shard)
        if table is None:
            self._append_size(shard, 0)
            return
        unfinished = path.with_suffix(_UNFINISHED)
        with disk_full_message(path):
            try:
                write_table(unfinished, table)
                self._append_size(shard, len(ragged(table, self._sized_by).values))
                move_into_place(unfinished, path)
            finally:
                unfinished.unlink(missing_ok=True)
        self._make_room(path)

    def _make_room(self, newest: Path) -> None:
        """Remove the least recently used shards; processes that still read them have them mapped."""
        used = []
        for path in self._folder.glob("*.arrow"):
            with suppress(FileNotFoundError):
                state = path.stat()
                used.append((state.st_mtime, state.st_size, path))
        total = sum(size for _, size, _ in used)
        for _, size, path in sorted(used, key=lambda entry: entry[0]):
            if total <= self._max_bytes:
                return
            if path != newest:
                path.unlink(missing_ok=True)
                total -= size

    def _sweep(self) -> None:
        """Remove what processes left that were killed while they wrote."""
        for path in self._folder.glob(f"*{_UNFINISHED}"):
            with suppress(TimeoutError), exclusive_lock(self._lock_file(int(path.stem)), wait=False):
                path.unlink(missing_ok=True)

    def _append_size(self, shard: int, size: int) -> None:
        """Append one short line at once: lines of two processes do not mix."""
        with disk_full_message(self._folder / _SIZES), (self._folder / _SIZES).open("ab", buffering=0) as file:
            file.write(f"\n{shard} {size} {_WHOLE}\n".encode())

    def _read_sizes(self) -> None:
        """Read the lines appended since; an incomplete line waits."""
        with suppress(FileNotFoundError), (self._folder / _SIZES).open("rb") as file:
            file.seek(self._read_up_to)
            complete = file.read().rpartition(b"\n")
            self._read_up_to += len(complete[0]) + len(complete[1])
            for line in complete[0].decode().splitlines():
                words = line.split()
                if len(words) == 3 and words[2] == _WHOLE:
                    self._sizes[int(words[0])] = int(words[1])

    def _path(self, shard: int) -> Path:
        return self._folder / f"{shard:07d}.arrow"

    def _lock_file(self, shard: int) -> Path:
        return self._folder / f"turn-{shard % _TURNS}"


class Prefetcher:
    """One thread per process that does work ahead of time; whoever needs a failed item meets its error again."""

    def __init__(self, work: Callable[[int], None]) -> None:
        self._work = work
        self._thread: threading.Thread | None = None
        self._queue: deque[int] = deque()
        self._begin()

    def add(self, shards: Iterable[int]) -> None:
        if self._process != os.getpid():  # no thread survives a fork
            self._begin()
        with self._guard:
            self._queue.extend(shards)
            if self._queue and self._thread is None:
                self._thread = thread = threading.Thread(target=self._run, daemon=True)
                thread.start()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._guard = threading.Lock()
        self._queue.clear()
        self._thread = None

    def _run(self) -> None:
        while True:
            with self._guard:
                if not self._queue:
                    self._thread = None
                    return
                shard = self._queue.popleft()
            with suppress(Exception):
                self._work(shard)

    def __getstate__(self) -> dict[str, Any]:
        return {"_work": self._work}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_work"])  # type: ignore[misc]
