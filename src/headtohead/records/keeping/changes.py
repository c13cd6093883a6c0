"""Changes to runs that are over, and the removal of checkpoints that they no longer need: by kind, for the best runs
alone, or as many as a disk can hold. Each is made while holding the run as its only writer, so that nothing that trains
is touched, here or on another machine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Literal, get_args

from headtohead.errors import UsageError
from headtohead.files.atomic_write import move_away
from headtohead.files.disk_operations import OutOfDisk
from headtohead.records.run_folder import RunFolder
from headtohead.records.run_query import ordered
from headtohead.records.run_summary import RunSummary

DELETED = ".deleted-"
"""Begins the name of a run folder that is on its way out."""
_LONGEST_NAME = 200
"""The bytes of a run's name that are left in that of what is deleted: a file system allows 255."""


@contextmanager
def held(path: Path | str, *, frees_space: bool = False) -> Iterator[RunFolder]:
    """Hold a run that is over; one that a process writes is refused at once. What frees space is done on a full disk
    too, where nobody can take the run, since a lease is a file."""
    run = RunFolder.open(path)
    if run.is_live():
        raise UsageError(f"{run.path} is being trained: wait for its end, or stop it first")
    try:
        run.claim()
    except OutOfDisk:
        if not frees_space:
            raise
    try:
        yield run
    finally:
        run.release()


def tag(path: Path | str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> list[str]:
    """Give a run tags and take some away, and return those that it has then; W&B's tags stay as they are."""
    check_tags(add)
    with held(path) as run:
        record = run.read_record_as_written()
        tags = [one for one in dict.fromkeys([*record.tags, *add]) if one not in remove and one.strip() not in remove]
        run.write_record(replace(record, tags=tags, path=run.path))
    return tags


def check_tags(tags: Sequence[str]) -> None:
    """Raise UsageError for the first that nobody could see."""
    if (odd := next((one for one in tags if not one.strip() or not _is_visible(one)), None)) is not None:
        raise UsageError(f"{odd!a} is not a tag: a tag is a word or a few, in letters that one can see")


_JOINERS = str.maketrans("", "", "\u200c\u200d")
"""Characters between letters of Persian, of Indic scripts and of pictures, which are seen by how they join them."""


def _is_visible(text: str) -> bool:
    shown = text.translate(_JOINERS)
    return bool(shown) and shown.isprintable()


def note(path: Path | str, text: str) -> None:
    """Write a run's note in place of the one it has; an empty text takes it away."""
    check_note(text)
    with held(path) as run:
        run.write_record(replace(run.read_record_as_written(), notes=text or None, path=run.path))


def check_note(text: str) -> None:
    """Raise UsageError for a text that no file can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"the note {text!a} is not text in UTF-8: type it again") from None


def delete(path: Path | str) -> int:
    """Delete a run, and return how many bytes it took: its folder vanishes at once, so that nobody ever sees half of
    one."""
    run = RunFolder.open(path)
    if run.path.is_symlink():
        raise UsageError(f"{run.path} is a link to {run.path.resolve()}: name that folder to delete the run")
    leaving = _free_name(run.path)
    with suppress(FileNotFoundError), held(path, frees_space=True):  # the lease leaves with the folder
        move_away(run.path, leaving)
    size = size_of(leaving)
    shutil.rmtree(leaving)
    return size


def remove_folder(run: Path) -> None:
    """Delete the folder of a run that this process has claimed: it vanishes at once."""
    move_away(run, leaving := _free_name(run))
    shutil.rmtree(leaving)


def _free_name(run: Path) -> Path:
    """Return a name by which nobody looks for a run; one that was deleted before may not be gone yet."""
    begin = DELETED + os.fsencode(run.name)[:_LONGEST_NAME].decode(errors="ignore")
    names = (f"{begin}{f'.{number}' if number else ''}" for number in count())
    return next(path for path in map(run.with_name, names) if not os.path.lexists(path))


def size_of(path: Path) -> int:
    """Return how many bytes the files of a run take."""
    return sum(map(_size, path.rglob("*")))


def _size(file: Path) -> int:
    """Return how many bytes a file takes, none where it is gone by now."""
    try:
        return file.lstat().st_size
    except FileNotFoundError:
        return 0


CheckpointKind = Literal["all", "best", "last", "none"]
KINDS = get_args(CheckpointKind)
_FOLDER = "checkpoints"


@dataclass(frozen=True)
class PrunePolicy:
    """A policy says which checkpoints stay; a run that did not finish keeps all of its own, since it may be resumed."""

    keep: CheckpointKind = "best"
    top: int | None = None
    """Only those of this many runs with the best results; None for all runs."""
    most_bytes: float = float("inf")
    """Those of the best runs first, as long as they fit."""


def unneeded(runs: Iterable[RunSummary], policy: PrunePolicy) -> Iterator[Path]:
    """Yield the checkpoints that the policy does not keep, those of the worst runs last."""
    left = policy.most_bytes
    finished = ordered((run for run in runs if run.status == "finished"), "result")
    for rank, run in enumerate(finished):
        is_kept = policy.top is None or rank < policy.top
        for file in _checkpoints(Path(run.path)):
            size = _size(file)
            if is_kept and policy.keep in ("all", file.stem) and size <= left:
                left -= size
            else:
                yield file


def remove(file: Path) -> int:
    """Remove a checkpoint while holding its run, and return how many bytes it took; a run that did not finish, or was
    resumed since it was listed, keeps all of its own."""
    with held(file.parent.parent, frees_space=True) as run:
        if (status := run.read_record_as_written().status) != "finished":
            raise UsageError(f"{file} stays: its run is {status.replace('_', ' ')}, and may be resumed")
        size = _size(file)
        file.unlink(missing_ok=True)
    return size


def _checkpoints(run: Path) -> list[Path]:
    return sorted((run / _FOLDER).glob("*.ckpt"))
