"""Small runs for the tests of W&B, and reading W&B's offline files back."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headtohead.records.record import Environment, Progress, RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.wandb_client.connection import TrackingSettings
from headtohead.wandb_client.tracker import Tracker
from headtohead.wandb_client.transaction_log import messages_of
from waiting import PATIENCE

OFFLINE = TrackingSettings(mode="offline", system_metrics=False)
PATIENT = TrackingSettings(init_timeout=PATIENCE, finish_timeout=PATIENCE, system_metrics=False)
"""The options for a server that answers, however late."""
UNTIL_THE_END = replace(PATIENT, finish_timeout=1.0)
"""The options for a server that is lost before the run ends."""
IMPATIENT = TrackingSettings(init_timeout=1.0, finish_timeout=1.0, system_metrics=False)
"""The options for a server that does not answer at the start."""
NUMBERS = """
import sys, time
from headtohead.wandb_client.connection import TrackingSettings
from headtohead.records.record import Progress, RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.wandb_client.wandb_tracker import start

folder = RunFolder.create(sys.argv[1], name="child")
record = RunRecord(id=folder.id)
tracker = start(TrackingSettings(finish_timeout=1.0, init_timeout=600.0, system_metrics=False), record, folder)
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
    """Return the W&B id of the record."""
    result = folder.read_record_as_written().wandb.id
    assert result is not None
    return result


def log_steps(tracker: Tracker, folder: RunFolder, steps: range, value: float = 1.0) -> None:
    for step in steps:
        progress = Progress(step, 0, step * 10, step * 1e6, step * 0.5)
        folder.log(progress, {"train/loss": value})
        tracker.log(progress, {"train/loss": value})


def message(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the messages of this project's loggers; W&B's client has a log of its own."""
    return [entry.getMessage() for entry in caplog.records if entry.name.startswith("headtohead")]


def written(directory: Path) -> list[dict[str, Any]]:
    """The records in W&B's transaction log, as its own tool reads them."""
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--json", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    return [json.loads(line) for line in done.stdout.splitlines()]


def num_written(outputs: Path, kind: str) -> int:
    """Return how many records of this kind W&B's service has written to the files of the runs, which may still grow."""
    files = outputs.rglob("run-*.wandb")
    return sum(message.HasField(kind) for file in files for message in messages_of(file))


def history(directory: Path) -> list[dict[str, Any]]:
    return [record["history"] for record in written(directory) if record["type"] == "history"]
