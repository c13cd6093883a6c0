"""One run of a study: begun, or continued where it was interrupted, always with a record that says how it ended."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headtohead.errors import UsageError
from headtohead.files.disk import is_full
from headtohead.studying.cells import Cell
from headtohead.studying.foundations import FROM_RUN
from headtohead.tracking.record import FOUNDATION, RunRecord, Status
from headtohead.tracking.stopping import why_ended_early
from headtohead.tracking.store import RECORD, RunFolder

_HOW: Mapping[Status, str] = {
    "failed": "failed", "diverged": "diverged", "out_of_memory": "ran out of memory",
    "out_of_disk": "found the disk full", "interrupted": "was interrupted",
}  # fmt: skip
FOUND_FULL = 74
"""The exit code of a run's process that found the disk full: no result, and no reason to try the next run."""
DONE: tuple[Status, ...] = ("finished", "diverged", "out_of_memory", "failed")
"""Results, good or bad; everything else is half a run, and counts as none."""


def record_of(folder: Path) -> RunRecord | None:
    """None where the run was never begun; one whose process is gone reads as interrupted."""
    return RunFolder.open(folder).read_record() if os.path.lexists(folder / RECORD) else None


def ended_record(folder: Path) -> RunRecord | None:
    """None while it is not done."""
    record = record_of(folder)
    if record is not None and record.status == "interrupted" and why_ended_early(folder):
        return record
    return record if record is not None and record.status in DONE else None


def is_done(folder: Path) -> bool:
    return ended_record(folder) is not None


def train_cell(cell: Cell, folder: Path, budget: str | None, threads: int | None) -> None:
    """To the end, or to a record that says why not."""
    from headtohead.building.build import build_parts
    from headtohead.training.run import train

    config = _as_run(cell.config, folder, threads)
    try:
        _check_start(config["init_from"])
        parts = build_parts(config)
        job = FOUNDATION if cell.is_foundation else parts.identity.job_type
        identity = replace(parts.identity, folder=folder, place=cell.place, job_type=job)
        record = train(replace(parts, identity=identity, budget={"kind": budget} if budget else {}))
    except Exception as error:
        if is_full(error):
            raise SystemExit(FOUND_FULL) from error
        _note(cell, folder, config, f"{type(error).__name__}: {' '.join(str(error).split())}")

    else:
        if record.status == "out_of_disk":
            raise SystemExit(FOUND_FULL)


def _check_start(given: str | None) -> None:
    """A foundation may have failed."""
    if given is None or not given.startswith(FROM_RUN):
        return
    record = record_of(Path(given.removeprefix(FROM_RUN)))
    if record is not None and record.job_type == FOUNDATION and record.status != "finished":
        raise UsageError(f"it starts from {record.name or record.id}, which {_HOW[record.status]}: {record.reason}")


def give_up(cell: Cell, folder: Path, reason: str) -> None:
    """A run without which nothing goes on is called failed, unless it came to its end after all."""
    if not is_done(folder):
        _note(cell, folder, dict(cell.config), reason)


def _as_run(config: Mapping[str, Any], folder: Path, threads: int | None) -> dict[str, Any]:
    """As it is trained here: on so many threads, silently, from where it was."""
    trainer = {**config["trainer"], "progress_bar": False}
    trainer["threads"] = trainer["threads"] or threads
    begun = record_of(folder) is not None
    return {**config, "trainer": trainer, "resume_from": str(folder) if begun else None}


def _note(cell: Cell, folder: Path, config: dict[str, Any], reason: str) -> None:
    """What fails before training begins leaves no record of its own."""
    record = record_of(folder)
    if record is None:
        record = RunRecord(id=folder.name, name=cell.name, group=config["group"], seed=config["seed"], config=config)
        record.place = cell.place
        record.job_type = FOUNDATION if cell.is_foundation else record.job_type
    elif record.status in DONE:
        return
    folder.mkdir(parents=True, exist_ok=True)
    run = RunFolder(folder)
    with run.claimed():
        run.write_record(replace(record, status="failed", reason=reason))
