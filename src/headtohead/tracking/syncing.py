"""Runs of which W&B's server lacks something: finding them on disk, and noting what it has."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from headtohead.tracking.store import RunFolder, find_runs

SUPERSEDED = "superseded"
"""Where W&B's files of earlier starts lie."""


@dataclass(frozen=True)
class Pending:
    """A start of a run whose file the server does not hold whole."""

    run: RunFolder
    file: Path


def mark_uploaded(directory: Path) -> None:
    """As `wandb sync` does it, so that neither uploads again what the other has uploaded."""
    for file in directory.glob("run-*.wandb"):
        marker(file).touch()


def everything_arrived(directory: Path) -> bool:
    """Whether W&B's client, which gives up in silence where it is refused, noted no failure in its log."""
    with contextlib.suppress(OSError):
        return '"level":"ERROR' not in (directory / "logs" / "debug-internal.log").read_text(encoding="utf-8")
    return False


def runs_with_files(root: Path) -> Iterator[tuple[RunFolder, list[Path]]]:
    """Runs with the files that hold their whole history; files of earlier starts lie in `superseded`."""
    for run in find_runs(root):
        files = [*run.wandb.glob("run-*/run-*.wandb"), *run.wandb.glob("offline-run-*/run-*.wandb")]
        if files:
            yield run, sorted(files)


def was_begun(what: Pending) -> bool:
    """Whether the server may hold a part of it: of this file, or of one of an earlier start."""
    begun = what.file.with_name(what.file.name + ".syncstate")  # W&B's client makes it at the first upload
    return begun.exists() or (what.run.wandb / SUPERSEDED).exists()


def marker(file: Path) -> Path:
    """The file beside it that says that the server has it all."""
    return file.with_name(file.name + ".synced")
