"""One run of a study: begun, or continued where it was interrupted, always with a record that says how it ended."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headtohead.config.run_config import RunConfig
from headtohead.config.run_id import run_id
from headtohead.errors import UsageError
from headtohead.execution.run_ranks import other_processes
from headtohead.execution.run_spec import FROM_RUN, RunSpec
from headtohead.files.disk_operations import is_full
from headtohead.records.early_end import why_ended_early
from headtohead.records.record import FOUNDATION, RunRecord, Status
from headtohead.records.run_folder import RECORD, RunFolder, slug

_HOW: Mapping[Status, str] = {
    "failed": "failed", "diverged": "diverged", "out_of_memory": "ran out of memory",
    "out_of_disk": "filled the disk", "interrupted": "was interrupted",
}  # fmt: skip
DISK_FULL_BEFORE_START = 74
"""The exit code of a run's process that filled the disk: no result, and no reason to try the next run."""
DONE: tuple[Status, ...] = ("finished", "diverged", "out_of_memory", "failed")
"""Results, good or bad; everything else is half a run, and counts as none."""


def record_of(folder: Path) -> RunRecord | None:
    """Return None where the run was never begun; one whose process is gone reads as interrupted."""
    return RunFolder.open(folder).read_record() if os.path.lexists(folder / RECORD) else None


def ended_record(folder: Path) -> RunRecord | None:
    """Return None while it is not done."""
    record = record_of(folder)
    if record is not None and record.status == "interrupted" and why_ended_early(folder):
        return record
    return record if record is not None and record.status in DONE else None


def is_done(folder: Path) -> bool:
    return ended_record(folder) is not None


def train_run(run: RunSpec, folder: Path, budget: str | None, threads: int | None) -> None:
    """Train the run to its end, or to a record that says why it failed."""
    config = _as_run(run.config, folder, threads)
    try:
        _check_start(RunConfig(config).init_from)
        with other_processes(RunConfig(config).devices, run.id, lambda: _train(run, config, folder, budget)):
            record = _train(run, config, folder, budget)
    except Exception as error:
        if is_full(error):
            raise SystemExit(DISK_FULL_BEFORE_START) from error
        _note(run, folder, config, f"{type(error).__name__}: {' '.join(str(error).split())}")

    else:
        if record.status == "out_of_disk":
            raise SystemExit(DISK_FULL_BEFORE_START)


def _train(run: RunSpec, config: Mapping[str, Any], folder: Path, budget: str | None) -> RunRecord:
    from headtohead.config.build import build_parts
    from headtohead.training.run import train

    parts = build_parts(config)
    job = FOUNDATION if run.is_foundation else parts.identity.job_type
    identity = replace(parts.identity, folder=folder, place=run.place, job_type=job)
    return train(replace(parts, identity=identity, budget={"kind": budget} if budget else {}))


def _check_start(init_from: str | None) -> None:
    """A foundation may have failed."""
    if init_from is None or not init_from.startswith(FROM_RUN):
        return
    record = record_of(Path(init_from.removeprefix(FROM_RUN)))
    if record is not None and record.job_type == FOUNDATION and record.status != "finished":
        raise UsageError(f"it starts from {record.name or record.id}, which {_HOW[record.status]}: {record.reason}")


def give_up(run: RunSpec, folder: Path, reason: str) -> None:
    """A run without which nothing continues is called failed, unless it came to its end after all."""
    if not is_done(folder):
        _note(run, folder, dict(run.config), reason)


def _as_run(config: Mapping[str, Any], folder: Path, threads: int | None) -> dict[str, Any]:
    """Return the configuration as the run is trained here: on so many threads in all, silently, from its last
    checkpoint."""
    trainer = {**RunConfig(config).trainer, "progress_bar": False}
    trainer["threads"] = trainer["threads"] or (threads and max(1, threads // trainer["devices"]))
    has_started = record_of(folder) is not None
    return {**config, "trainer": trainer, "resume_from": str(folder) if has_started else None}


def _note(spec: RunSpec, folder: Path, config: dict[str, Any], reason: str) -> None:
    """Write a record for a run that failed before training began, which leaves none of its own."""
    record = record_of(folder)
    if record is None:
        view = RunConfig(config)
        record = RunRecord(id=folder.name, name=spec.name, group=view.group, seed=view.seed, config=config)
        record.place = spec.place
        record.job_type = FOUNDATION if spec.is_foundation else record.job_type
    elif record.status in DONE:
        return
    folder.mkdir(parents=True, exist_ok=True)
    run = RunFolder(folder)
    with run.claimed():
        run.write_record(replace(record, status="failed", reason=reason))


ENDED: tuple[Status, ...] = ("finished", "diverged")
"""The states that another start would not change. A failure may have been that of a machine."""


def folder_of_run(config: Mapping[str, Any]) -> Path:
    """Return the run's folder, which follows from its content as in a multirun."""
    return Path(RunConfig(config).output_dir) / slug(RunConfig(config).group) / run_id(config)


def train_resumable(config: Mapping[str, Any], *, take_over: bool = False) -> RunRecord:
    """Started, resumed, or, where it has ended, its record as it is."""
    from headtohead.config.build import build_parts
    from headtohead.training.run import train

    folder = folder_of_run(config)
    record = record_of(folder)
    if record is not None and record.status in ENDED:
        return record
    # SLURM has ended the job that wrote it, maybe on a machine that cannot be asked
    take_over = take_over or bool(int(os.environ.get("SLURM_RESTART_COUNT") or 0))
    parts = build_parts({**config, "resume_from": None if record is None else str(folder)})
    return train(replace(parts, identity=replace(parts.identity, folder=folder, take_over=take_over)))
