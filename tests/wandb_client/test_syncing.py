"""A later upload sends the rest of a run that the server has in part, and nothing twice; so does W&B's own command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import wandb

from headtohead.records.run_folder import RunFolder
from headtohead.wandb_client.missing_rows import uploads_needed
from headtohead.wandb_client.pending_uploads import runs_with_files
from headtohead.wandb_client.upload import upload
from headtohead.wandb_client.wandb_tracker import start
from run_folders import NUMBERS, OFFLINE, UNTIL_THE_END, log_steps, new_run, num_written, wandb_id
from waiting import PATIENCE, until
from wandb_server import WandbServer


def wandb_sync(*arguments: str) -> str:
    """W&B's command, as its users type it."""
    command = [sys.executable, "-m", "wandb", "sync", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)
    return done.stdout + done.stderr


def uploaded(outputs: Path) -> list[str | None]:
    """Upload by `h2h sync`, and return the errors by run."""
    result = [what for run, files in runs_with_files(outputs) for what in uploads_needed(run, files)]
    return [upload(what, timeout=PATIENCE).trouble for what in result]


def offline(outputs: Path, steps: range = range(4)) -> RunFolder:
    record, folder = new_run(outputs)
    tracker = start(OFFLINE, record, folder)
    log_steps(tracker, folder, steps)
    tracker.finish("finished")
    return folder


@pytest.mark.process
def test_wandbs_own_command_uploads_our_folders_and_neither_sends_what_the_other_sent(
    tmp_path: Path, server: WandbServer
) -> None:
    first, second = offline(tmp_path), offline(tmp_path)
    message = wandb_sync(*map(str, first.wandb.glob("offline-run-*")))
    assert f"{server.url}/me/headtohead/runs/{wandb_id(first)}" in message
    assert uploaded(tmp_path) == [None]
    assert server.runs.keys() == {wandb_id(first), wandb_id(second)}
    assert "No runs to sync" in wandb_sync(*map(str, tmp_path.glob("*/*/wandb/offline-run-*")))
    assert uploaded(tmp_path) == []
    for folder in (first, second):
        run = server.runs[wandb_id(folder)]
        assert (run.steps("train/loss"), run.exit_code, run.summary["status"]) == ([0, 1, 2, 3], 0, "finished")


@pytest.mark.process
def test_of_an_online_run_whose_server_failed_the_rest_is_uploaded(tmp_path: Path, server: WandbServer) -> None:
    record, folder = new_run(tmp_path)
    tracker = start(UNTIL_THE_END, record, folder)
    log_steps(tracker, folder, range(3))
    until(lambda: len(server.runs[wandb_id(folder)].history) == 3)
    server.behaviour = "refuses"
    log_steps(tracker, folder, range(3, 9))
    tracker.finish("finished")
    wandb.teardown(exit_code=1)  # the process of the run has ended by then, and W&B's service with it
    assert server.runs[wandb_id(folder)].steps("train/loss") == [0, 1, 2]

    server.behaviour = "healthy"
    assert uploaded(tmp_path) == [None]
    run = server.runs[wandb_id(folder)]
    assert (run.steps("train/loss"), run.exit_code, run.summary["status"]) == (list(range(9)), 0, "finished")


@pytest.mark.process
def test_a_killed_run_that_nobody_resumes_is_uploaded_as_far_as_it_came(tmp_path: Path, server: WandbServer) -> None:
    code = NUMBERS + "print(record.wandb.id, flush=True)\ntime.sleep(3600)\n"
    offline = {**os.environ, "WANDB_MODE": "offline"}
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, env=offline, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip()
        until(lambda: num_written(tmp_path, "history") == 20)
        process.kill()

    assert uploaded(tmp_path) == [None]
    assert server.runs[name].steps("train/loss") == list(range(20))
    assert server.runs[name].summary["status"] == "interrupted" and "record.json" in server.runs[name].files
    (file,) = tmp_path.glob("*/*/wandb/offline-run-*/run-*.wandb.synced")
    file.unlink()
    assert uploaded(tmp_path) == [None], "the server has it all already"
    assert server.runs[name].steps("train/loss") == list(range(20))
