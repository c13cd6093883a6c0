"""W&B's real client: what it writes, what a kill leaves, and what a resume adds."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from headtohead.records.record import Progress
from headtohead.records.run_folder import RunFolder
from headtohead.wandb_client.connection import TrackingSettings
from headtohead.wandb_client.tracker import NoTracker, Tracker
from headtohead.wandb_client.wandb_tracker import WandbTracker, start
from run_folders import NUMBERS, OFFLINE, PATIENT, history, log_steps, message, new_run, num_written, wandb_id, written
from waiting import until
from wandb_server import WandbServer


def directory_of(tracker: Tracker) -> Path:
    assert isinstance(tracker, WandbTracker)
    return tracker.directory


def steps(rows: list[dict[str, Any]]) -> list[int]:
    return [row["item"]["trainer/global_step"] for row in rows if "train/loss" in row["item"]]


def test_none_writes_no_wandb_files_and_tells_no_link(tmp_path: Path) -> None:
    record, folder = new_run(tmp_path)
    tracker = start(TrackingSettings(mode="none"), record, folder)
    log_steps(tracker, folder, range(3))
    tracker.images(Progress(), {"map": np.zeros((2, 2))})
    tracker.summary({"a": 1})
    tracker.finish("finished")

    assert isinstance(tracker, NoTracker)
    assert not folder.wandb.exists()
    assert (record.wandb.mode, record.wandb.id) == ("none", None)
    assert folder.metrics()["train/loss"].step == [0, 1, 2]


@pytest.mark.process
def test_an_offline_run_says_what_it_is_and_keeps_its_config_nested(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = {
        "model": {"mixer": {"qk_norm": True}, "dropout": None},
        "optimizer": {"lr": 1e-05, "betas": [0.9, 0.95]},
        "tracking": {"api_key": "hidden"},
        "data": {"path": str(Path.home() / "text.txt")},
    }
    fields = {"config": config, "tags": ["decoder", "x" * 100], "notes": "why", "group": "study", "job_type": "train"}
    record, folder = new_run(tmp_path, **fields)
    with caplog.at_level(logging.INFO, logger="headtohead"):
        tracker = start(TrackingSettings(system_metrics=False), record, folder)
    tracker.summary({"costs": {"parameters": 5}})
    tracker.finish("diverged", "loss is NaN")

    assert len(message(caplog)) == 1
    assert "W&B is offline (not logged in" in message(caplog)[0]
    assert f"upload with `h2h sync {os.path.relpath(folder.path)}`" in message(caplog)[0]
    assert (record.wandb.mode, record.wandb.id, record.wandb.url) == ("offline", wandb_id(folder), None)
    assert (folder.path / (record.wandb.directory or "")).resolve() == directory_of(tracker).resolve()
    lines = written(directory_of(tracker))
    run = next(line["run"] for line in lines if line["type"] == "run")
    logged = run["config"]["update"]
    assert logged["model"] == config["model"]
    assert logged["optimizer"] == config["optimizer"]
    assert logged["tracking"] == {"api_key": "***"}
    assert logged["data"] == {"path": "~/text.txt"}
    assert (run["display_name"], run["run_id"], run["run_group"]) == ("tiny run", wandb_id(folder), "study")
    assert (run["job_type"], run["notes"], run["git"]["commit"]) == ("train", "why", "c0ffee")
    assert run["tags"] == ["decoder", "x" * 64]
    assert not run.get("host")
    summaries = [line["summary"]["update"] for line in lines if line["type"] == "summary"]
    assert {"costs": {"parameters": 5}} in summaries
    assert {"status": "diverged", "reason": "loss is NaN"} in summaries
    assert next(line["exit"]["exit_code"] for line in lines if line["type"] == "exit") == 1


@pytest.mark.process
def test_every_chart_is_drawn_against_the_trainers_step(tmp_path: Path) -> None:
    record, folder = new_run(tmp_path)
    tracker = start(OFFLINE, record, folder)
    for step in (0, 50, 100):
        tracker.log(Progress(step, 1, step * 10, step * 1e9, 0.5), {"train/loss": 2.0})
    tracker.finish("finished")

    lines = written(directory_of(tracker))
    metrics = [line["metric"] for line in lines if line["type"] == "metric"]
    assert {"glob_name": "*", "step_metric": "trainer/global_step"}.items() <= metrics[-1].items()
    assert {metric.get("name") for metric in metrics} >= {"trainer/global_step", "progress/tokens", "progress/flops"}
    rows = [line["history"]["item"] for line in lines if line["type"] == "history"]
    assert [row["trainer/global_step"] for row in rows] == [0, 50, 100]
    assert rows[-1]["progress/tokens"] == 1000
    assert rows[-1]["progress/flops"] == 1e11


@pytest.mark.process
def test_a_map_between_zero_and_one_is_logged_as_a_picture_that_one_can_see(tmp_path: Path) -> None:
    record, folder = new_run(tmp_path)
    tracker = start(OFFLINE, record, folder)
    attention = np.tril(np.random.default_rng(0).random((16, 16)))
    tracker.images(Progress(7), {"attention/layer_0": attention / attention.sum(1, keepdims=True)})
    tracker.finish("finished")

    pictures = list(directory_of(tracker).rglob("*.png"))
    assert len(pictures) == 1
    pixels = np.asarray(Image.open(pictures[0]).convert("RGB"))
    assert pixels.shape == (16, 16, 3)
    assert pixels.max() > 200
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 30


@pytest.mark.process
def test_a_kill_loses_no_more_than_a_second_of_rows(tmp_path: Path) -> None:
    code = NUMBERS + "print(tracker.directory, flush=True)\ntime.sleep(3600)\n"
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    directory = Path(process.stdout.readline().strip())
    until(lambda: num_written(directory, "history") == 20)
    process.kill()
    process.stdout.close()
    process.wait()

    assert steps(history(directory)) == list(range(20))


@pytest.mark.process
def test_a_second_run_in_one_process_finishes_the_first(tmp_path: Path) -> None:
    first_record, first_folder = new_run(tmp_path)
    first = start(OFFLINE, first_record, first_folder)
    log_steps(first, first_folder, range(3))
    second_record, second_folder = new_run(tmp_path)
    second = start(OFFLINE, second_record, second_folder)
    log_steps(second, second_folder, range(5))
    second.finish("finished")

    assert first_record.wandb.id != second_record.wandb.id
    assert steps(history(directory_of(first))) == [0, 1, 2]
    assert steps(history(directory_of(second))) == [0, 1, 2, 3, 4]
    assert any(line["type"] == "exit" for line in written(directory_of(first)))


@pytest.mark.process
def test_the_first_of_two_runs_goes_on_without_wandb_and_without_harm(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first_record, first_folder = new_run(tmp_path)
    first = start(OFFLINE, first_record, first_folder)
    second_record, second_folder = new_run(tmp_path)
    second = start(OFFLINE, second_record, second_folder)

    log_steps(first, first_folder, range(3))
    first.finish("finished")
    second.finish("finished")

    assert caplog.text.count("the run continues with its record only") == 1
    assert first_folder.metrics()["train/loss"].step == [0, 1, 2]


@pytest.mark.process
def test_an_offline_run_that_is_resumed_leaves_one_file_with_every_step_once(tmp_path: Path) -> None:
    record, folder = new_run(tmp_path)
    tracker = start(OFFLINE, record, folder)
    log_steps(tracker, folder, range(8), value=1.0)
    tracker.finish("interrupted")

    folder.release()
    folder = RunFolder.resume(folder.path, step=4)
    tracker = start(OFFLINE, record, folder, resumed=True)
    log_steps(tracker, folder, range(5, 10), value=2.0)
    tracker.finish("finished")

    rows = history(directory_of(tracker))
    assert steps(rows) == list(range(10))
    assert [row["item"]["train/loss"] for row in rows] == [1.0] * 5 + [2.0] * 5
    assert list(folder.wandb.glob("offline-run-*")) == [directory_of(tracker)]
    assert len(list((folder.wandb / "superseded").iterdir())) == 1


@pytest.mark.process
def test_an_online_run_arrives_whole(tmp_path: Path, server: WandbServer) -> None:
    record, folder = new_run(tmp_path, group="study", tags=["a"], config={"model": {"d_model": 64}})
    tracker = start(PATIENT, record, folder)
    log_steps(tracker, folder, range(5))
    tracker.images(Progress(5), {"attention/layer_0": np.eye(4)})
    tracker.finish("finished")

    run = server.runs[wandb_id(folder)]
    assert record.wandb.mode == "online"
    assert record.wandb.url == f"{server.url}/me/headtohead/runs/{wandb_id(folder)}"
    assert run.steps("train/loss") == [0, 1, 2, 3, 4]
    assert run.config["model"] == {"d_model": 64}
    assert (run.first["groupName"], run.first["tags"], run.first["program"]) == ("study", ["a"], "h2h")
    assert run.summary["status"] == "finished"
    assert run.exit_code == 0
    assert any(name.startswith("media/images/attention/layer_0") for name in run.files)


@pytest.mark.process
def test_nothing_sent_names_the_host_the_user_or_the_environment(
    tmp_path: Path, server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_SECRET", "do-not-send-me")
    record, folder = new_run(tmp_path, config={"password": "nor-me"})
    tracker = start(replace(PATIENT, system_metrics=True), record, folder)
    log_steps(tracker, folder, range(2))
    until(lambda: num_written(directory_of(tracker), "stats"))
    tracker.finish("finished")

    run = server.runs[wandb_id(folder)]
    sent = b"".join(server.bodies).decode(errors="replace")
    assert "do-not-send-me" not in sent
    assert "nor-me" not in sent
    assert str(Path.cwd()) not in sent and sys.executable not in sent
    assert not run.first["host"]
    assert "system.memory_percent" in run.events[0]
    assert not [name for name in run.files if "metadata" in name]


@pytest.mark.process
def test_an_online_run_that_is_resumed_continues_the_same_run_with_every_step_once(
    tmp_path: Path, server: WandbServer
) -> None:
    record, folder = new_run(tmp_path)
    tracker = start(PATIENT, record, folder)
    log_steps(tracker, folder, range(8))
    tracker.finish("interrupted")

    folder.release()
    folder = RunFolder.resume(folder.path, step=4)
    tracker = start(PATIENT, record, folder, resumed=True)
    log_steps(tracker, folder, range(5, 12))
    tracker.finish("finished")

    assert list(server.runs) == [record.wandb.id]
    assert server.runs[wandb_id(folder)].steps("train/loss") == list(range(12))
    assert record.wandb.id == wandb_id(folder) != folder.id


@pytest.mark.process
def test_rows_that_never_reached_the_server_are_sent_on_a_resume(tmp_path: Path, server: WandbServer) -> None:
    record, folder = new_run(tmp_path)
    tracker = start(PATIENT, record, folder)
    log_steps(tracker, folder, range(3))
    tracker.finish("interrupted")
    for step in range(3, 6):  # as if the connection had gone before the kill
        folder.log(Progress(step), {"train/loss": 1.0})

    folder.release()
    folder = RunFolder.resume(folder.path, step=5)
    tracker = start(PATIENT, record, folder, resumed=True)
    log_steps(tracker, folder, range(6, 8))
    tracker.finish("finished")

    assert server.runs[wandb_id(folder)].steps("train/loss") == list(range(8))


@pytest.mark.process
def test_a_run_begun_offline_and_resumed_online_arrives_whole(tmp_path: Path, server: WandbServer) -> None:
    record, folder = new_run(tmp_path)
    tracker = start(OFFLINE, record, folder)
    log_steps(tracker, folder, range(4))
    tracker.finish("interrupted")

    folder.release()
    folder = RunFolder.resume(folder.path, step=3)
    tracker = start(PATIENT, record, folder, resumed=True)
    log_steps(tracker, folder, range(4, 6))
    tracker.finish("finished")

    assert server.runs[wandb_id(folder)].steps("train/loss") == list(range(6))
    assert not list(folder.wandb.glob("offline-run-*"))
