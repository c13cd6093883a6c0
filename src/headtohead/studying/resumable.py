"""A run whose folder follows from its content: the same command, started again by whomever, goes on with it.

So does a job that a scheduler queues again, and what torchrun starts again, in all processes of the run alike.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from headtohead.building.content import run_id
from headtohead.studying.running import record_of
from headtohead.tracking.record import RunRecord, Status
from headtohead.tracking.store import slug

ENDED: tuple[Status, ...] = ("finished", "diverged")
"""What another start would not change. A failure may have been that of a machine."""


def place_of(config: Mapping[str, Any]) -> Path:
    """Where the run is, as those of a multirun."""
    return Path(config["output_dir"]) / slug(config["group"]) / run_id(config)


def train_resumable(config: Mapping[str, Any], *, take_over: bool = False) -> RunRecord:
    """Begun, gone on with, or, where it has ended, its record as it is."""
    from headtohead.building.build import build_parts
    from headtohead.training.run import train

    folder = place_of(config)
    record = record_of(folder)
    if record is not None and record.status in ENDED:
        return record
    # SLURM has ended the job that wrote it, maybe on a machine that cannot be asked
    take_over = take_over or bool(int(os.environ.get("SLURM_RESTART_COUNT") or 0))
    parts = build_parts({**config, "resume_from": None if record is None else str(folder)})
    return train(replace(parts, identity=replace(parts.identity, folder=folder, take_over=take_over)))
