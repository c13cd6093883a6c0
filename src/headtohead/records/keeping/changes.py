"""Changes to runs that are over. Each is made while holding the run as its only writer, so that nothing that trains is
touched, here or on another machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from headtohead.errors import UsageError
from headtohead.files.atomic_write import move_away
from headtohead.records.run_folder import RunFolder

DELETED = ".deleted-"
"""Begins the name of a run folder that is on its way out."""


@contextmanager
def held(path: Path | str) -> Iterator[RunFolder]:
    """Hold a run that is over; one that a process writes is refused at once."""
    run = RunFolder.open(path)
    if run.is_live():
        raise UsageError(f"{run.path} is being trained: wait for its end, or stop it first")
    with run.claimed():
        yield run


def tag(path: Path | str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> list[str]:
    """Give a run tags and take some away, and return those that it has then; W&B's tags stay as they are."""
    with held(path) as run:
        record = run.read_record_as_written()
        tags = [one for one in dict.fromkeys([*record.tags, *add]) if one not in remove]
        run.write_record(replace(record, tags=tags, path=run.path))
    return tags


def note(path: Path | str, text: str) -> None:
    """Write a run's note in place of the one it has; an empty text takes it away."""
    with held(path) as run:
        run.write_record(replace(run.read_record_as_written(), notes=text or None, path=run.path))


def delete(path: Path | str) -> None:
    """Delete a run: its folder vanishes at once, so that nobody ever sees half of one."""
    run = RunFolder.open(path)
    leaving = run.path.with_name(f"{DELETED}{run.path.name}")
    with suppress(FileNotFoundError), held(path):  # the lease leaves with the folder
        move_away(run.path, leaving)
    shutil.rmtree(leaving)


def size_of(path: Path) -> int:
    """Return how many bytes the files of a run take."""
    return sum(file.lstat().st_size for file in path.rglob("*"))
