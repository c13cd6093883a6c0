"""The file of the index: where it is, what happens to one that is damaged, and rows in and out.

The file is in the cache of the user who reads, never beside the runs: a folder of runs may be shared, and the locks of
SQLite are not to be trusted on shared disks. It is one of this host and of this version of the code that reads records.
It holds nothing that the records do not hold: whatever is wrong with it, it is thrown away.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import sqlite3
import stat
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from headtohead import metrics, records
from headtohead.data.cache.paths import cache_root
from headtohead.records.record import SCHEMA_VERSION

_SCHEMA = """
CREATE TABLE IF NOT EXISTS run (
    path BLOB PRIMARY KEY, state TEXT NOT NULL, first_seen REAL NOT NULL, is_sure INTEGER NOT NULL,
    status TEXT NOT NULL, summary TEXT NOT NULL, apart TEXT NOT NULL, sum INTEGER NOT NULL, record TEXT NOT NULL,
    record_sum INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS section (hash TEXT PRIMARY KEY, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS tail (path BLOB PRIMARY KEY, sum INTEGER NOT NULL, content TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS root (path BLOB PRIMARY KEY, day INTEGER NOT NULL);
"""
_DAY = 86_400.0
_UNUSED_DAYS = 60
"""Files and roots that nobody asked for this long are forgotten."""
_WAIT_SECONDS = 5.0
_MEMORY = ":memory:"
_HASHES = re.compile(r"[0-9a-f]{32}")
_Value = TypeVar("_Value")


class StoredRow(NamedTuple):
    """One run as the index has it."""

    path: str
    state: str
    first_seen: float
    is_sure: int
    """Whether a change of the record would show in its state."""
    status: str
    summary: str
    apart: str
    """The parts of the summary that few readers need."""
    record: str = ""
    """Empty where it was not requested."""


class IndexFile:
    """The rows of one index; an error of SQLite is never the caller's: rows that cannot be read are not there."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._connection = self._opened()

    def close(self) -> None:
        self._connection.close()

    def __del__(self) -> None:
        """Close the connection with its last reader, before Python says that nobody did."""
        if hasattr(self, "_connection"):  # not where opening was interrupted
            self.close()

    def paths_below(self, root: str) -> set[str]:
        """Return the runs at or below a folder that the index knows."""
        low, high = _bounds(root)
        query = "SELECT path FROM run WHERE path = ? OR (path >= ? AND path < ?)"
        return {os.fsdecode(row[0]) for row in self._select(query, (os.fsencode(root), low, high))}

    def rows(self, paths: Sequence[str], *, with_records: bool) -> dict[str, StoredRow]:
        """Return the rows of these runs; one that is damaged is not there."""
        columns = (
            "path, state, first_seen, is_sure, status, summary, apart, sum" + ", record, record_sum" * with_records
        )
        query = f"SELECT {columns} FROM run WHERE path IN ({_marks(paths)})"
        rows = {}
        for path, *values in self._select(query, list(map(os.fsencode, paths))):
            row = StoredRow(os.fsdecode(path), *values[:6], *values[7:8])
            if values[6] == _sum_of(row) and (not with_records or values[8] == _crc(row.record)):
                rows[row.path] = row
        return rows

    def sections(self, hashes: Sequence[str], is_whole: Callable[[str, str], bool]) -> dict[str, str]:
        """Return the contents of these sections; one that is damaged is not there."""
        query = f"SELECT hash, content FROM section WHERE hash IN ({_marks(hashes)})"
        return {key: text for key, text in self._select(query, list(hashes)) if is_whole(key, text)}

    def tails(self, paths: Sequence[str]) -> dict[str, str]:
        """Return what was last read of the metrics of these runs."""
        query = f"SELECT path, content, sum FROM tail WHERE path IN ({_marks(paths)})"
        rows = self._select(query, list(map(os.fsencode, paths)))
        return {os.fsdecode(path): text for path, text, total in rows if total == _crc(text)}

    def put(self, rows: Iterable[StoredRow], sections: Iterable[tuple[str, str]]) -> None:
        """Store rows and the sections that they need, in one piece."""
        values = [(os.fsencode(row.path), *row[1:7], _sum_of(row), row.record, _crc(row.record)) for row in rows]

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany("INSERT OR REPLACE INTO section VALUES (?, ?)", sections)
            connection.executemany(f"INSERT OR REPLACE INTO run VALUES ({_marks(range(10))})", values)

        self._write(write)

    def put_tails(self, tails: Iterable[tuple[str, str]]) -> None:
        """Store what was read of the metrics of runs."""
        values = [(os.fsencode(path), _crc(text), text) for path, text in tails]
        self._write(lambda connection: connection.executemany("INSERT OR REPLACE INTO tail VALUES (?, ?, ?)", values))

    def forget(self, paths: Iterable[str]) -> None:
        """Remove runs that are gone."""
        gone = [(os.fsencode(path),) for path in paths]

        def remove(connection: sqlite3.Connection) -> None:
            for table in ("run", "tail"):
                connection.executemany(f"DELETE FROM {table} WHERE path = ?", gone)

        self._write(remove)

    def note_use(self, root: str, now: float) -> None:
        """Remember that somebody requested this folder; once a day, forget what nobody asks for."""
        day, own = int(now // _DAY), os.fsencode(root)
        if self._select("SELECT 1 FROM root WHERE path = ? AND day = ?", (own, day)):
            return

        def clean(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO root VALUES (?, ?)", (own, day))
            connection.execute("DELETE FROM root WHERE day < ?", (day - _UNUSED_DAYS,))
            connection.execute(
                "DELETE FROM run WHERE NOT EXISTS (SELECT 1 FROM root WHERE run.path = root.path "
                "OR substr(run.path, 1, length(root.path) + 1) = CAST(root.path || x'2f' AS BLOB))"
            )
            connection.execute("DELETE FROM tail WHERE path NOT IN (SELECT path FROM run)")
            self._drop_unused_sections(connection)

        self._write(clean)

    def _drop_unused_sections(self, connection: sqlite3.Connection) -> None:
        used: set[str] = set()
        for row in connection.execute("SELECT summary || record FROM run"):
            used.update(_HASHES.findall(row[0]))
        known = {row[0] for row in connection.execute("SELECT hash FROM section")}
        connection.executemany("DELETE FROM section WHERE hash = ?", [(key,) for key in known - used])

    def _select(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        return self._guarded(lambda connection: connection.execute(query, values).fetchall()) or []

    def _write(self, write: Callable[[sqlite3.Connection], object]) -> None:
        def transaction(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            try:
                write(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

        self._guarded(transaction)

    def _guarded(self, action: Callable[[sqlite3.Connection], _Value]) -> _Value | None:
        try:
            return action(self._connection)
        except sqlite3.Error as error:
            if not _is_passing(error):
                self._throw_away()
            return None

    def _throw_away(self) -> None:
        """Continue with an empty index: a new file, or memory where no file can be written."""
        self._connection.close()
        _remove(self.path)
        self._connection = self._opened()

    def _opened(self) -> sqlite3.Connection:
        for path in (self.path, self.path, None):
            try:
                if path is not None:
                    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
                    os.utime(path)
                return self._connected(path)
            except (sqlite3.Error, OSError) as error:
                if path is not None and not _is_passing(error):
                    _remove(path)
        raise AssertionError("SQLite opens no database in memory")

    def _connected(self, path: Path | None) -> sqlite3.Connection:
        connection = sqlite3.connect(
            _MEMORY if path is None else path,
            timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False,
        )  # fmt: skip
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.executescript(_SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        self.path = path
        return connection


def index_path() -> Path | None:
    """Return the file of this user, host and version of the code; None where there is no folder of the user's own."""
    folder = cache_root() / f"index-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = folder.stat()
        if facts.st_uid != os.getuid() or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return None
        for file in folder.glob("*.sqlite"):
            if file.stat().st_mtime < time.time() - _UNUSED_DAYS * _DAY:
                _remove(file)
    except OSError:
        return None
    host = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:12]
    return folder / f"runs-{host}-{_code_version()}.sqlite"


@cache
def _code_version() -> str:
    """Return a hash of the code that reads records: another version may read something else in the same record."""
    total = hashlib.sha256(f"{SCHEMA_VERSION}{_SCHEMA}".encode())
    for package in (records, metrics):
        for file in sorted(Path(package.__path__[0]).rglob("*.py")):
            total.update(file.read_bytes())
    return total.hexdigest()[:12]


def _remove(path: Path | None) -> None:
    for ending in ("", "-wal", "-shm", "-journal") if path is not None else ():
        with suppress(OSError):  # gone already, or no file
            Path(f"{path}{ending}").unlink()


def _is_passing(error: Exception) -> bool:
    """Return whether another process merely holds the lock, or the disk is full: nothing is wrong with the file."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL)


def _sum_of(row: StoredRow) -> int:
    """Return a checksum of all but the record, which has its own."""
    facts = f"{row.path} {row.state} {row.first_seen!r} {row.is_sure} {row.status} {row.summary} {row.apart}"
    return zlib.crc32(facts.encode("utf-8", "surrogateescape"))


def _crc(text: str) -> int:
    return zlib.crc32(text.encode())


def _marks(values: Sequence[object]) -> str:
    return ",".join("?" * len(values))


def _bounds(root: str) -> tuple[bytes, bytes]:
    """Return the range of the paths below a folder: those that continue with a slash, which 0 follows."""
    below = os.fsencode(root).rstrip(b"/")
    return below + b"/", below + b"0"
