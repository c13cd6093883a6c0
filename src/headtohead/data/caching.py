"""Work that is done once per machine: kept in a folder named by everything that determines it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headtohead.data.contracts import DataError
from headtohead.data.storage import Table, describe_column, describe_size, read_table, size_in_bytes, write_table

MANIFEST = "manifest.json"
FORMAT = 1
"""Goes up whenever older folders can no longer be read."""
_UNFINISHED = ".unfinished-"
_UNFINISHED_FOR_SURE = 24 * 3600
"""Seconds after which nobody is still writing a folder."""
_VERIFIED_UP_TO = 64 * 2**20
"""Bytes of a column up to which its content is verified; of longer ones, which would take seconds, only the size."""


@dataclass(frozen=True)
class Prepared:
    """Tables by name, and small facts about them that JSON can hold."""

    tables: Mapping[str, Table]
    facts: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""
    """Of all columns and facts; filled by reading."""


def cache_root() -> Path:
    """HEADTOHEAD_CACHE, else the platform's folder for what can be made again."""
    if chosen := os.environ.get("HEADTOHEAD_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "headtohead"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "headtohead" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headtohead"


def fingerprint(parameters: Mapping[str, Any]) -> str:
    """The same parameters give the same text on every machine."""
    written = json.dumps({"format": FORMAT, **parameters}, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(written.encode()).hexdigest()[:24]


def prepared(name: str, parameters: Mapping[str, Any], make: Callable[[], Prepared]) -> Prepared:
    """What `make` gives for these parameters, from the cache if it is there.

    Of two processes that make it at once, the first to finish wins and both read the same. A process that dies
    leaves at most a folder that nobody reads and that a later process removes.
    """
    folder = cache_root() / name / fingerprint(parameters)
    if not folder.exists():
        _write(folder, make(), parameters)
    return _read(folder)


def _write(folder: Path, content: Prepared, parameters: Mapping[str, Any]) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(folder.parent)
        unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=folder.parent))
    except OSError as error:
        raise DataError(
            f"the cache folder {folder.parent} cannot be written ({error.strerror}): "
            f"set HEADTOHEAD_CACHE to a folder of yours."
        ) from error
    try:
        _write_files(unfinished, content, parameters)
        _move(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write_files(folder: Path, content: Prepared, parameters: Mapping[str, Any]) -> None:
    tables = {}
    for name, table in content.tables.items():
        write_table(folder / f"{name}.arrow", table)
        tables[name] = {column: describe_column(values) for column, values in table.items()}
    manifest = {"format": FORMAT, "parameters": dict(parameters), "facts": dict(content.facts), "tables": tables}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _move(unfinished: Path, folder: Path) -> None:
    try:
        unfinished.rename(folder)
    except OSError:
        if not folder.exists():
            raise
        # Another process was faster, with the same content.


def _remove_abandoned(parent: Path) -> None:
    for folder in parent.glob(f"{_UNFINISHED}*"):
        try:
            abandoned = time.time() - folder.stat().st_mtime > _UNFINISHED_FOR_SURE
        except FileNotFoundError:
            continue
        if abandoned:
            shutil.rmtree(folder, ignore_errors=True)


def _read(folder: Path) -> Prepared:
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        tables = {name: read_table(folder / f"{name}.arrow") for name in manifest["tables"]}
        wrong = _first_difference(manifest["tables"], tables)
        facts = manifest["facts"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, _arrow_error()) as error:
        raise _corrupt(folder, str(error)) from error
    if wrong:
        raise _corrupt(folder, wrong)
    content = {"facts": facts, "tables": manifest["tables"]}
    return Prepared(tables, facts, fingerprint(content))


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

    return pa.ArrowException


def _corrupt(folder: Path, reason: str) -> DataError:
    return DataError(f"the cache folder {folder} is damaged ({reason}): delete it, and it is made anew.")
