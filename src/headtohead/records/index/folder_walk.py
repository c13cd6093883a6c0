"""Finding the records below a folder, with what the file system says of each without opening it."""

from __future__ import annotations

import os
import stat
from collections.abc import Container, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from headtohead.records.run_folder import RECORD


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
