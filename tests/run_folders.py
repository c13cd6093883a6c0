"""Small runs for the tests of W&B, and reading W&B's offline files back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headtohead.tracking.connection import TrackingSettings
from headtohead.tracking.record import Environment, Progress, RunRecord
from headtohead.tracking.store import RunFolder
from headtohead.tracking.tracker import Tracker

OFFLINE = TrackingSettings(mode="offline", system_metrics=False)
IMPATIENT = TrackingSettings(init_timeout=1.0, finish_timeout=1.0, system_metrics=False)
NUMBERS = """
import sys, time
from headtohead.tracking.connection import TrackingSettings
from headtohead.tracking.record import Progress, RunRecord
from headtohead.tracking.store import RunFolder
from headtohead.tracking.wandb import start

folder = RunFolder.create(sys.argv[1], name="child")
record = RunRecord(id=folder.id)
tracker = start(TrackingSettings(finish_timeout=1.0, init_timeout=5.0, system_metrics=False), record, folder)
folder.write_record(record)
for step in range(20):
    tracker.log(Progress(step), {"train/loss": 1.0})
"""
"""A process that starts a run and logs steps 0 to 19; a test adds what happens then."""


def new_run(outputs: Path, **fields: Any) -> tuple[RunRecord, RunFolder]:
    folder = RunFolder.create(outputs, name="tiny")
    record = RunRecord(id=folder.id, name="tiny run", environment=Environment(git_commit="c0ffee"))
    for name, value in fields.items():
        setattr(record, name, value)
    folder.write_record(record)
    return record, folder


def wandb_id(folder: RunFolder) -> str:
    """As the record has it."""
    found = folder.read_record_as_written().wandb.id
    assert found is not None
    return found


def log_steps(tracker: Tracker, folder: RunFolder, steps: range, value: float = 1.0) -> None:
    for step in steps:
        progress = Progress(step, 0, step * 10, step * 1e6, step * 0.5)
        folder.log(progress, {"train/loss": value})
        tracker.log(progress, {"train/loss": value})


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What this project said; W&B's client keeps a log of its own."""
    return [entry.getMessage() for entry in caplog.records if entry.name.startswith("headtohead")]


def written(directory: Path) -> list[dict[str, Any]]:
    """The records in W&B's transaction log, as its own tool reads them."""
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


def history(directory: Path) -> list[dict[str, Any]]:
    return [record["history"] for record in written(directory) if record["type"] == "history"]
