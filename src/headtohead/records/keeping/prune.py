"""Checkpoints that finished runs no longer need: by kind, for the best runs alone, or as many as a disk can hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from headtohead.records.keeping.changes import held
from headtohead.records.run_query import ordered
from headtohead.records.run_summary import RunSummary

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
            size = file.stat().st_size
            if is_kept and policy.keep in ("all", file.stem) and size <= left:
                left -= size
            else:
                yield file


def remove(files: Sequence[Path]) -> int:
    """Remove checkpoints, each while holding its run, and return how many bytes they took."""
    saved = 0
    for file in files:
        with held(file.parent.parent):
            saved += file.stat().st_size
            file.unlink()
    return saved


def _checkpoints(run: Path) -> list[Path]:
    return sorted((run / _FOLDER).glob("*.ckpt"))
