"""Runs of which W&B's server lacks something: finding them on disk, and noting what it has."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headtohead.files.atomic_write import move_into_place
from headtohead.records.run_folder import RunFolder, find_runs
from headtohead.wandb_client.artifacts import forget_artifacts
from headtohead.wandb_client.connection import setting

SUPERSEDED = "superseded"
"""The folder in which W&B's files of earlier starts lie."""


@dataclass(frozen=True)
class Pending:
    """A start of a run whose file the server does not hold whole."""

    run: RunFolder
    file: Path


def mark_uploaded(directory: Path) -> None:
    """Mark the file as uploaded in the way of `wandb sync`, so that neither command uploads it again."""
    for file in directory.glob("run-*.wandb"):
        marker(file).touch()


def everything_arrived(directory: Path) -> bool:
    """Return whether W&B's client, which gives up silently when it is refused, noted no failure in its log."""
    with contextlib.suppress(OSError):
        return '"level":"ERROR' not in (directory / "logs" / "debug-internal.log").read_text(encoding="utf-8")
    return False


def runs_with_files(root: Path) -> Iterator[tuple[RunFolder, list[Path]]]:
    """Runs with the files that hold their whole history; files of earlier starts lie in `superseded`."""
    for run in find_runs(root):
        candidates = [*run.wandb.glob("run-*/run-*.wandb"), *run.wandb.glob("offline-run-*/run-*.wandb")]
        if files := [file for file in candidates if file.is_file()]:
            yield run, sorted(files)


def was_started(what: Pending) -> bool:
    """Return whether the server may hold part of the run: of this file, or of one of an earlier start."""
    sync_state = what.file.with_name(what.file.name + ".syncstate")  # W&B's client makes it at the first upload
    return sync_state.exists() or (what.run.wandb / SUPERSEDED).exists()


def marker(file: Path) -> Path:
    """The file beside it that says that the server has it all."""
    return file.with_name(file.name + ".synced")


_log = logging.getLogger(__name__)


def root_of_files(folder: RunFolder) -> Path:
    """Return WANDB_DIR where it can be written, else the run folder."""
    root = Path(setting("root_dir") or folder.path).expanduser().absolute()
    folder.wandb.mkdir(exist_ok=True)
    try:
        (root / "wandb").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _log.warning("WANDB_DIR=%s cannot be written (%s): W&B's files go into the run folder", root, error.strerror)
        return folder.path
    return root


def linked(directory: Path, folder: RunFolder) -> Path:
    """Return the same directory as a path in the run folder, by which `h2h sync` finds it."""
    link = folder.wandb / directory.name
    if not link.exists():
        link.symlink_to(directory)
    return link


def move_aside(folder: RunFolder) -> None:
    """Move W&B's files of earlier starts away from `h2h sync`: every start sends the whole history that W&B lacks."""
    forget_artifacts(folder)
    for earlier in [*folder.wandb.glob("run-*"), *folder.wandb.glob("offline-run-*")]:
        superseded = folder.wandb / SUPERSEDED
        superseded.mkdir(exist_ok=True)
        move_into_place(earlier, superseded / earlier.name)
