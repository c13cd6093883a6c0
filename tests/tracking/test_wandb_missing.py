"""What W&B's client did not take: a failing table costs itself alone, and `h2h sync` sends missing rows."""

from __future__ import annotations

import logging
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from headtohead.cli import main
from headtohead.tasks.tables import Table
from headtohead.tracking import wandb as tracking_wandb
from headtohead.tracking.record import Progress
from headtohead.tracking.store import RunFolder
from headtohead.tracking.wandb import start
from headtohead.tracking.wandb_files import is_whole
from headtohead.tracking.wandb_missing import complete, missing_rows
from run_folders import IMPATIENT, OFFLINE, log_steps, new_run, told, wandb_id
from wandb_server import WandbServer

SAMPLES = {"validation/samples": Table(("text",), (("a",),))}


def broken(monkeypatch: pytest.MonkeyPatch, *media: str) -> None:
    """W&B's client cannot write these: the disk is full."""
    sent = tracking_wandb.send

    def failing(run: Any, number: int, progress: Progress, values: Any, medium: str) -> None:
        if medium in media:
            raise OSError(28, "No space left on device")
        sent(run, number, progress, values, medium)

    monkeypatch.setattr(tracking_wandb, "send", failing)


def file_of(folder: RunFolder) -> Path:
    (file,) = folder.wandb.glob("*run-*/run-*.wandb")
    return file


@pytest.mark.process
def test_a_failing_table_costs_that_table_alone(
    tmp_path: Path, server: WandbServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    record, folder = new_run(tmp_path)
    with monkeypatch.context() as patched:
        tracker = start(IMPATIENT, record, folder)
        log_steps(tracker, folder, range(2))
        broken(patched, "tables")
        tracker.tables(Progress(1), SAMPLES)
    log_steps(tracker, folder, range(2, 5))
    tracker.tables(Progress(4), SAMPLES)
    tracker.finish("finished")

    run = server.runs[wandb_id(folder)]
    assert run.steps("train/loss") == list(range(5)) and run.steps("validation/samples") == [4]
    assert (run.summary["status"], run.exit_code) == ("finished", 0)
    assert any("No space left on device" in line for line in told(caplog))
    assert told(caplog)[-1].startswith("W&B lacks 1 rows of tables and pictures, which stay in ")


@pytest.mark.process
def test_a_temporary_folder_that_vanished_is_made_again(tmp_path: Path, server: WandbServer) -> None:
    from wandb.sdk.data_types._private import MEDIA_TMP

    record, folder = new_run(tmp_path)
    tracker = start(IMPATIENT, record, folder)
    shutil.rmtree(MEDIA_TMP.name)
    tracker.tables(Progress(1), SAMPLES)
    log_steps(tracker, folder, range(2, 4))
    tracker.finish("finished")
    run = server.runs[wandb_id(folder)]
    assert run.steps("validation/samples") == [1] and run.steps("train/loss") == [2, 3]


@pytest.mark.process
def test_rows_that_the_client_lost_are_told_and_uploaded_by_sync_once(
    tmp_path: Path, server: WandbServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    record, folder = new_run(tmp_path)
    with monkeypatch.context() as patched:
        tracker = start(IMPATIENT, record, folder)
        log_steps(tracker, folder, range(3))
        broken(patched, "numbers")
        log_steps(tracker, folder, range(3, 9))
        tracker.finish("finished")
    record.status, record.metrics["test"] = "finished", {"loss": 0.25}
    folder.write_record(record)
    folder.release()
    assert any(line.startswith("W&B lacks 6 rows of numbers; `h2h sync ") for line in told(caplog))

    assert main(["sync", str(tmp_path)]) == 0
    run = server.runs[wandb_id(folder)]
    assert run.steps("train/loss") == list(range(9))
    assert (run.summary["status"], run.summary["test/loss"]) == ("finished", 0.25)
    assert main(["sync", str(tmp_path)]) == 0
    assert run.steps("train/loss") == list(range(9))
    assert capsys.readouterr().out.endswith("0 runs uploaded, 1 there already\n")


@pytest.mark.process
def test_what_the_file_lacks_of_the_metrics_is_found_and_added_in_order(tmp_path: Path) -> None:
    record, folder = new_run(tmp_path)
    tracker = start(OFFLINE, record, folder)
    log_steps(tracker, folder, range(3))
    tracker.finish("finished")
    file = file_of(folder)
    while not is_whole(file):
        time.sleep(0.02)
    assert missing_rows(folder, file) == []
    folder.log(Progress(1), {"validation/loss": float("nan")})
    folder.log(Progress(5), {"train/loss": 0.5})
    rows = missing_rows(folder, file)
    assert [(row.progress.step, list(row.values)) for row in rows] == [(1, ["validation/loss"]), (5, ["train/loss"])]
    complete(folder, file, rows)
    assert missing_rows(folder, file) == []


def test_the_end_of_a_run_without_loss_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="headtohead"):
        assert list(tracking_wandb.lost_sentences({"numbers": 0}, Path(), "")) == []
