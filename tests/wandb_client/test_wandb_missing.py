"""A table that W&B's client cannot take is lost by itself, and `h2h sync` sends missing rows."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from headtohead.cli import main
from headtohead.metrics.metric import MetricTable
from headtohead.records.record import Progress, RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.training.callbacks.sample_logger import write_csv
from headtohead.wandb_client import wandb_tracker as tracking_wandb
from headtohead.wandb_client.logged_rows import AXIS, MAPS, TABLES, step_folder
from headtohead.wandb_client.missing_rows import complete, missing_in
from headtohead.wandb_client.transaction_log import is_complete
from headtohead.wandb_client.wandb_tracker import start
from run_folders import OFFLINE, PATIENT, log_steps, message, new_run, wandb_id
from waiting import until
from wandb_server import ServedRun, WandbServer

SAMPLES = {"validation/samples": MetricTable(("text",), (("a",),))}


def broken(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """W&B's client cannot write these: the disk is full."""
    before, sent = tracking_wandb.prepared, tracking_wandb.send

    def prepared(run: Any, number: int, values: Mapping[str, Any], medium: Any) -> dict[str, Any]:
        fail(values)
        return before(run, number, values, medium)

    def send(run: Any, number: int, progress: Progress, made: Mapping[str, Any]) -> None:
        fail(made)
        sent(run, number, progress, made)

    def fail(values: Mapping[str, Any]) -> None:
        if not values.keys().isdisjoint(names):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(tracking_wandb, "prepared", prepared)
    monkeypatch.setattr(tracking_wandb, "send", send)


def on_disk(folder: RunFolder, step: int, *layers: str) -> dict[str, np.ndarray]:
    """A table of a validation and pictures of these layers, as a run writes them; the pictures by W&B's names."""
    tables, maps = folder.path / TABLES / step_folder(step), folder.path / MAPS / step_folder(step)
    for position in (tables, maps):
        position.mkdir(parents=True, exist_ok=True)
    write_csv(SAMPLES["validation/samples"], tables / "samples.csv")
    pictures = {f"{MAPS}/{layer}": np.full((4, 4, 3), 10 * step, np.uint8) for layer in layers}
    for layer, picture in zip(layers, pictures.values(), strict=True):
        Image.fromarray(picture).save(maps / f"{layer}.png")
    return pictures


def ended(folder: RunFolder, record: RunRecord) -> None:
    record.status, record.progress = "finished", Progress(4)
    folder.write_record(record)
    folder.release()


def rows_of(run: ServedRun, name: str) -> list[tuple[int, bool]]:
    """Return the rows by step, and whether the file that each names is there."""
    return [(row[AXIS], row[name]["path"] in run.files) for row in run.rows(name)]


def file_of(folder: RunFolder) -> Path:
    (file,) = folder.wandb.glob("*run-*/run-*.wandb")
    return file


@pytest.mark.process
def test_a_failing_table_costs_that_table_alone(
    tmp_path: Path, server: WandbServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    record, folder = new_run(tmp_path)
    with monkeypatch.context() as patched:
        tracker = start(PATIENT, record, folder)
        log_steps(tracker, folder, range(2))
        broken(patched, *SAMPLES)
        tracker.tables(Progress(1), SAMPLES)
    log_steps(tracker, folder, range(2, 5))
    tracker.tables(Progress(4), SAMPLES)
    tracker.finish("finished")

    run = server.runs[wandb_id(folder)]
    assert run.steps("train/loss") == list(range(5)) and run.steps("validation/samples") == [4]
    assert (run.summary["status"], run.exit_code) == ("finished", 0)
    assert any("No space left on device" in line for line in message(caplog))
    assert message(caplog)[-1].startswith("W&B lacks 1 table; `h2h sync ")


@pytest.mark.process
def test_media_that_were_lost_are_uploaded_by_sync_once_as_they_lie_in_the_folder(
    tmp_path: Path, server: WandbServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    record, folder = new_run(tmp_path)
    tracker = start(PATIENT, record, folder)
    for step in range(5):
        log_steps(tracker, folder, range(step, step + 1))
        if step in (1, 4):
            with monkeypatch.context() as patched:
                broken(patched, *(SAMPLES if step == 1 else ()), "attention/stack.0")
                tracker.tables(Progress(step), SAMPLES)
                tracker.images(Progress(step), on_disk(folder, step, "stack.0", "stack.1"))
    (folder.path / TABLES / "test").mkdir()
    write_csv(MetricTable(("true", "a"), (("a", 3), ("b", 4))), folder.path / TABLES / "test" / "confusion.csv")
    tracker.finish("finished")
    ended(folder, record)
    run = server.runs[wandb_id(folder)]
    assert rows_of(run, "attention/stack.1") == [(1, True), (4, True)], "a picture costs no other"
    assert message(caplog)[-1].startswith("W&B lacks 1 table and 2 pictures; `h2h sync ")

    assert main(["sync", str(tmp_path)]) == 0
    assert rows_of(run, "attention/stack.0") == [(1, True), (4, True)]
    assert sorted(rows_of(run, "validation/samples")) == [(1, True), (4, True)]
    (confusion,) = run.rows("test/confusion")
    cells = json.loads(run.files[confusion["test/confusion"]["path"]])["data"]
    assert (confusion[AXIS], cells) == (4, [["a", 3], ["b", 4]])
    assert run.summary["validation/samples"]["path"] == run.rows("validation/samples")[0]["validation/samples"]["path"]
    assert run.steps("train/loss") == list(range(5)) and run.steps("attention/stack.1") == [1, 4]
    assert [row["_step"] for row in run.history] == sorted({row["_step"] for row in run.history})
    capsys.readouterr()
    assert main(["sync", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "0 runs uploaded, 1 there already\n"


@pytest.mark.process
def test_an_offline_run_that_is_resumed_brings_the_media_of_its_first_start(
    tmp_path: Path, server: WandbServer, capsys: pytest.CaptureFixture[str]
) -> None:
    record, folder = new_run(tmp_path)
    tracker = start(OFFLINE, record, folder)
    log_steps(tracker, folder, range(3))
    tracker.images(Progress(1), on_disk(folder, 1, "stack.0"))
    tracker.finish("interrupted")
    folder.release()
    folder = RunFolder.resume(folder.path, step=2)
    tracker = start(OFFLINE, record, folder, resumed=True)
    log_steps(tracker, folder, range(3, 5))
    tracker.images(Progress(4), on_disk(folder, 4, "stack.0"))
    tracker.tables(Progress(4), SAMPLES)
    tracker.finish("finished")
    ended(folder, record)
    assert main(["sync", str(tmp_path)]) == 0, capsys.readouterr().out
    run = server.runs[wandb_id(folder)]
    assert run.steps("train/loss") == list(range(5))
    assert sorted(rows_of(run, "attention/stack.0")) == [(1, True), (4, True)]
    assert sorted(rows_of(run, "validation/samples")) == [(1, True), (4, True)]


@pytest.mark.process
def test_a_temporary_folder_that_vanished_is_made_again(tmp_path: Path, server: WandbServer) -> None:
    from wandb.sdk.data_types._private import MEDIA_TMP

    record, folder = new_run(tmp_path)
    tracker = start(PATIENT, record, folder)
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
        tracker = start(PATIENT, record, folder)
        log_steps(tracker, folder, range(3))
        broken(patched, "train/loss")
        log_steps(tracker, folder, range(3, 9))
        tracker.finish("finished")
    record.metrics["test"] = {"loss": 0.25}
    ended(folder, record)
    assert any(line.startswith("W&B lacks 6 rows of numbers; `h2h sync ") for line in message(caplog))

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
    until(lambda: is_complete(file))
    assert not missing_in(folder, file)
    folder.log(Progress(1), {"validation/loss": float("nan")})
    folder.log(Progress(5), {"train/loss": 0.5})
    rows = missing_in(folder, file).rows
    assert [(row.progress.step, list(row.values)) for row in rows] == [(1, ["validation/loss"]), (5, ["train/loss"])]
    complete(folder, file, missing_in(folder, file))
    assert not missing_in(folder, file)


def test_the_end_of_a_run_without_loss_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="headtohead"):
        assert tracking_wandb.lost_sentence({"numbers": 0}, "") is None
    assert tracking_wandb.lost_sentence({"pictures": 1}, "x") == "W&B lacks 1 picture; x uploads it"
