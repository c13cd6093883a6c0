"""Work that is done once per machine is stored in a folder named by a digest of everything that determines it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headtohead.data.cache.arrow_columns import (
    Table,
    describe_column,
    describe_size,
    read_table,
    size_in_bytes,
    write_table,
)
from headtohead.data.cache.paths import cache_root
from headtohead.data.data_source import DataError
from headtohead.data.splits.leaks import LEAKS
from headtohead.data.splits.left_out_rows import LEFT_OUT
from headtohead.files.atomic_write import move_into_place
from headtohead.files.disk_operations import is_full
from headtohead.files.safe_read import read_json

MANIFEST = "manifest.json"
FORMAT = 1
"""Goes up whenever older folders can no longer be read."""
_UNFINISHED = ".unfinished-"
_LOCKS = ".locks"
_REPORT_AFTER = 2.0
"""Seconds of waiting for another process after which a message names it."""
_log = logging.getLogger(__name__)
_VERIFIED_UP_TO = 64 * 2**20
"""Bytes of a column up to which its content is verified; of longer ones, which would take seconds, only the size."""


@dataclass(frozen=True)
class PreparedContent:
    """Tables by name, and small facts about them that JSON can hold."""

    tables: Mapping[str, Table]
    facts: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    """The digest of all columns and facts; filled by reading."""


def fingerprint(parameters: Mapping[str, Any]) -> str:
    """Return a digest of the parameters that is the same on every machine."""
    written = json.dumps({"format": FORMAT, **parameters}, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(written.encode()).hexdigest()[:24]


def prepared(name: str, parameters: Mapping[str, object], make: Callable[[], PreparedContent]) -> PreparedContent:
    """Return what `make` returns for these parameters, from the cache if it is there.

    If two processes need it at once, one makes it and the other waits. A process that dies, even killed, leaves at most
    a folder that nobody reads and that the next one to make this content removes.
    """
    folder = cache_root() / name / fingerprint(parameters)
    if not folder.exists():
        with exclusive_lock(folder):
            if not folder.exists():
                _write(folder, make, parameters)
    return _read(folder)


@contextmanager
def exclusive_lock(index: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock of this path, one process at a time; the system releases it when a process dies. Without `wait`,
    raise TimeoutError where another process holds it."""
    from filelock import FileLock, Timeout

    lock = FileLock(_lock_of(index))
    try:
        lock.acquire(timeout=_REPORT_AFTER if wait else 0)
    except Timeout:
        if not wait:
            raise
        _log.info("another process is making %s: waiting for it", index)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _lock_of(index: Path) -> Path:
    """Return the path of a lock, beside the caches, so that a folder of caches holds nothing else."""
    locks = cache_root() / _LOCKS
    try:
        locks.mkdir(parents=True, exist_ok=True)
        index.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(index.parent, error) from error
    return locks / hashlib.sha256(str(index.absolute()).encode()).hexdigest()[:24]


def _write(folder: Path, make: Callable[[], PreparedContent], parameters: Mapping[str, object]) -> None:
    unfinished = folder.parent / f"{_UNFINISHED}{folder.name}"
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed: this one holds the lock
    with disk_full_message(folder):
        content = make()
        try:
            unfinished.mkdir()
            _write_files(unfinished, content, parameters)
            _move(unfinished, folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def disk_full_message(index: Path) -> Iterator[None]:
    """Report a full disk in one sentence."""
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise
        raise DataError(
            f"the disk is full ({os.strerror(error.errno or 0)}) while {index} was written, and nothing of it is left: "
            f"free some space, or set HEADTOHEAD_CACHE to a folder on a larger disk."
        ) from error


def _move(unfinished: Path, folder: Path) -> None:
    try:
        move_into_place(unfinished, folder)
    except OSError:
        if not folder.exists():
            raise
        # A process of another machine, which a lock on a shared disk did not stop, was faster with the same content.


def _unwritable(folder: Path, error: OSError) -> DataError:
    return DataError(
        f"the cache folder {folder} cannot be written ({error.strerror}): set HEADTOHEAD_CACHE to a folder of yours."
    )


def _write_files(unfinished: Path, content: PreparedContent, parameters: Mapping[str, object]) -> None:
    tables = {}
    for name, table in content.tables.items():
        write_table(unfinished / f"{name}.arrow", table)
        tables[name] = {column: describe_column(values) for column, values in table.items()}
    manifest = {"format": FORMAT, "parameters": dict(parameters), "facts": dict(content.facts), "tables": tables}
    (unfinished / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _read(folder: Path) -> PreparedContent:
    try:
        manifest = read_json(folder / MANIFEST)
        tables = {name: read_table(folder / f"{name}.arrow") for name in manifest["tables"]}
        wrong = _first_difference(manifest["tables"], tables)
        facts = manifest["facts"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, _arrow_error()) as error:
        raise _corrupt(folder, str(error)) from error
    if wrong:
        raise _corrupt(folder, wrong)
    # What is counted does not change the rows.
    of_rows = {name: fact for name, fact in facts.items() if name not in (LEAKS, LEFT_OUT)}
    content = {"facts": of_rows, "tables": manifest["tables"]}
    return PreparedContent(tables, facts, fingerprint(content))


def _first_difference(described: Mapping[str, Any], tables: Mapping[str, Table]) -> str:
    for name, columns in described.items():
        for column, description in columns.items():
            values = tables[name][column]
            known = {**describe_size(values), "digest": description["digest"]}
            if size_in_bytes(values) <= _VERIFIED_UP_TO:
                known = describe_column(values)
            if known != description:
                return f"column {column} of {name}.arrow is not what was written"
    return ""


def _arrow_error() -> type[Exception]:
    import pyarrow as pa

    result: type[Exception] = pa.ArrowException
    return result


def _corrupt(folder: Path, reason: str) -> DataError:
    return DataError(f"the cache folder {folder} is damaged ({reason}): delete it, and it is created again.")
