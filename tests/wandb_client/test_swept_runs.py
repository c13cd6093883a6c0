"""A run of an agent as W&B's real client tells it: nested, and beside that what was swept."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from headtohead.records.early_stopping_marker import end_early
from headtohead.wandb_client.wandb_tracker import start
from run_folders import PATIENT, log_steps, new_run
from wandb_server import WandbServer

CONFIG = {"schedule": {"warmup": 0.1}, "optimizer": {"lr": 1e-05, "eps": 1e-08}, "choices": {"schedule": "wsd"}}


@pytest.mark.process
def test_no_swept_name_takes_the_place_of_what_the_run_is(
    tmp_path: Path, server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept = {"schedule": "wsd", "optimizer": {"lr": 1e-05}, "choices.schedule": "wsd", "optimizer.eps": None}
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump({name: {"value": value} for name, value in swept.items()}))
    message = {"SWEEP_ID": "s1", "SWEEP_PARAM_PATH": str(file), "RUN_ID": "r1", "PROJECT": "mine"}
    for name, value in message.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    record, folder = new_run(tmp_path, config=CONFIG)
    tracker = start(PATIENT, record, folder)
    log_steps(tracker, folder, range(2))
    tracker.finish("interrupted", "stopped by the agent")

    run = server.runs["r1"]
    assert (run.first["sweep"], run.first["project"], run.exit_code) == ("s1", "mine", 0)
    assert {name: run.config[name] for name in CONFIG} == CONFIG
    assert run.config["choices.schedule"] == "wsd" and run.config["optimizer.eps"] is None


@pytest.mark.parametrize(("reason", "code"), [("Hyperband, bracket 3", 0), (None, 255)])
@pytest.mark.process
def test_a_run_that_its_sweep_ended_counts_as_finished(
    tmp_path: Path, server: WandbServer, reason: str | None, code: int
) -> None:
    record, folder = new_run(tmp_path, config=CONFIG)
    tracker = start(PATIENT, record, folder)
    if reason is not None:
        end_early(folder.path, reason)
    tracker.finish("interrupted", reason)
    (run,) = server.runs.values()
    assert (run.exit_code, run.summary["status"]) == (code, "interrupted")
