"""`h2h sync`: what W&B's server lacks is uploaded once, by W&B's real client, to the tests' server."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headtohead.cli import main
from headtohead.records.run_folder import RunFolder
from headtohead.wandb_client.wandb_tracker import start
from run_folders import OFFLINE, PATIENT, UNTIL_THE_END, log_steps, new_run, wandb_id
from wandb_server import WandbServer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[WandbServer]:
    for name in list(os.environ):
        if name.startswith("WANDB_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    running = WandbServer()
    for name, value in running.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "no-settings"))
    monkeypatch.chdir(tmp_path)
    yield running
    running.close()
    import wandb

    wandb.teardown()
    assert running.unknown == []


def offline(outputs: Path, **fields: str) -> RunFolder:
    record, folder = new_run(outputs, **fields)
    tracker = start(OFFLINE, record, folder)
    log_steps(tracker, folder, range(4))
    tracker.finish("finished")
    record.status = "finished"
    folder.write_record(record)
    folder.release()
    return folder


@pytest.mark.process
def test_offline_run_is_uploaded_once_and_that_is_said(
    tmp_path: Path, server: WandbServer, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = offline(tmp_path / "outputs", group="study")
    shown = f"outputs/default/{folder.id}"
    assert main(["sync", "--dry-run"]) == 0
    assert capfd.readouterr().out == f"would upload {shown}\n1 run to upload, 0 there already\n"
    assert main(["sync"]) == 0
    page = f"{server.url}/me/headtohead/runs/{wandb_id(folder)}"
    assert capfd.readouterr().out == f"uploaded {shown}: {page}\n1 run uploaded, 0 there already\n"
    run = server.runs[wandb_id(folder)]
    assert (run.steps("train/loss"), run.summary["status"], run.exit_code) == ([0, 1, 2, 3], "finished", 0)
    assert run.first["groupName"] == "study"

    server.requested.clear()
    assert main(["sync"]) == 0
    assert capfd.readouterr().out == "0 runs uploaded, 1 there already\n"
    assert server.requested == []


@pytest.mark.slow
@pytest.mark.process
def test_run_that_lost_its_server_after_a_resume_gets_the_steps_that_are_missing(
    tmp_path: Path, server: WandbServer, capfd: pytest.CaptureFixture[str]
) -> None:
    record, folder = new_run(tmp_path / "outputs")
    tracker = start(PATIENT, record, folder)
    log_steps(tracker, folder, range(8))
    tracker.finish("interrupted")
    folder.release()
    folder = RunFolder.resume(folder.path, step=4)
    tracker = start(UNTIL_THE_END, record, folder, resumed=True)
    server.behaviour = "refuses"
    log_steps(tracker, folder, range(5, 12))
    tracker.finish("finished")
    record.status = "finished"
    folder.write_record(record)
    folder.release()
    run = server.runs[wandb_id(folder)]
    assert run.steps("train/loss") == list(range(8))

    server.behaviour = "healthy"
    server.then("refuses", when=lambda seen: any(path.endswith("file_stream") for path in seen.requested[listed:]))
    listed = len(server.requested)
    assert main(["sync"]) == 1, "it is refused in the middle"
    assert "0 runs uploaded, 1 failed" in capfd.readouterr().out
    server.behaviour = "healthy"
    assert main(["sync"]) == 0
    assert "1 run uploaded, 0 there already" in capfd.readouterr().out
    assert run.steps("train/loss") == list(range(12))
    assert (run.summary["status"], run.exit_code) == ("finished", 0)


@pytest.mark.process
def test_server_that_cannot_be_used_is_refused_in_one_sentence(
    tmp_path: Path, server: WandbServer, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    offline(tmp_path / "outputs")
    capfd.readouterr()
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    assert main(["sync"]) == 2
    assert "http://127.0.0.1:9 cannot be reached" in capfd.readouterr().err
    monkeypatch.delenv("WANDB_API_KEY")
    assert main(["sync"]) == 2
    assert "`wandb login`, or set WANDB_API_KEY" in capfd.readouterr().err
    assert main(["sync", "nowhere"]) == 2
    assert "nowhere does not exist" in capfd.readouterr().err


def test_a_file_is_no_folder_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["sync", str(tmp_path / "file")]) == 2
    assert "file is not a folder: name a folder of runs" in capsys.readouterr().err
