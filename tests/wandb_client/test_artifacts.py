"""Records and checkpoints at W&B: on request, byte for byte, within limits, and never at the run's cost."""

from __future__ import annotations

import logging
import re
import time
from pathlib import Path
from typing import Any

import pytest

from headtohead.errors import UsageError
from headtohead.records.run_folder import RunFolder
from headtohead.wandb_client.artifacts import artifacts_of, has_pending_artifacts
from headtohead.wandb_client.connection import TrackingSettings
from headtohead.wandb_client.missing_rows import uploads_needed
from headtohead.wandb_client.pending_uploads import runs_with_files
from headtohead.wandb_client.upload import upload
from headtohead.wandb_client.wandb_tracker import start
from run_folders import log_steps, message, new_run, wandb_id
from waiting import PATIENCE
from wandb_server import WandbServer

REQUESTED = {
    "artifacts": ["record", "checkpoint"],
    "artifact_days": 7.0,
    "finish_timeout": 15.0,
    "system_metrics": False,
}


def ended(outputs: Path, **settings: Any) -> RunFolder:
    """A run with a checkpoint and with its home in its configuration."""
    tracking = {**REQUESTED, **settings}
    config = {"tracking": tracking, "output_dir": f"{Path.home()}/outputs", "password": "nobody-knows"}
    record, folder = new_run(outputs, config=config)
    folder.write_config(f"output_dir: {Path.home()}/outputs\npassword: nobody-knows\n")
    tracker = start(TrackingSettings(**tracking), record, folder)
    log_steps(tracker, folder, range(3))
    folder.checkpoints.mkdir()
    (folder.checkpoints / "best.ckpt").write_bytes(bytes(range(256)) * 500)
    record.status = "finished"
    folder.write_record(record)
    tracker.finish("finished")
    return folder


def check(server: WandbServer, folder: RunFolder) -> None:
    """That both arrived whole, and that the run is as before."""
    assert {artifact.name: artifact.sent["ttlDurationSeconds"] for artifact in server.artifacts.held.values()} == {
        f"record-{wandb_id(folder)}": 7 * 86400,
        f"checkpoint-{wandb_id(folder)}": 7 * 86400,
    }
    assert all(artifact.is_whole for artifact in server.artifacts.held.values())
    run = server.runs[wandb_id(folder)]
    files = run.files
    best = files[f"artifacts/checkpoint-{wandb_id(folder)}/best.ckpt"]
    assert best == (folder.checkpoints / "best.ckpt").read_bytes()
    position = f"artifacts/record-{wandb_id(folder)}"
    assert files[f"{position}/metrics.csv"] == folder.metrics_file.path.read_bytes()
    home = re.escape(str(Path.home())).encode()
    assert files[f"{position}/record.json"] == re.sub(home + b"/", b"~/", (folder.path / "record.json").read_bytes())
    assert files[f"{position}/config.yaml"] == b"output_dir: ~/outputs\npassword: '***'\n"
    assert (run.steps("train/loss"), run.summary["status"], run.exit_code) == ([0, 1, 2], "finished", 0)
    assert run.config["output_dir"] == "~/outputs"
    everything = b"".join(server.bodies)
    assert b"nobody-knows" not in everything and str(Path.home()).encode() + b"/" not in everything
    assert [what for result, at in runs_with_files(folder.path) for what in uploads_needed(result, at)] == []


@pytest.mark.process
def test_what_was_asked_for_arrives_byte_for_byte_with_the_run(tmp_path: Path, server: WandbServer) -> None:
    check(server, ended(tmp_path))


@pytest.mark.process
def test_an_offline_run_brings_its_artifacts_later(tmp_path: Path, server: WandbServer) -> None:
    folder = ended(tmp_path, mode="offline")
    assert server.requested == []
    (waiting,) = [what for run, at in runs_with_files(tmp_path) for what in uploads_needed(run, at)]
    assert upload(waiting, timeout=PATIENCE).trouble is None
    check(server, folder)


@pytest.mark.process
def test_nothing_is_sent_without_being_asked_for_or_above_the_limit(
    tmp_path: Path, server: WandbServer, caplog: pytest.LogCaptureFixture
) -> None:
    ended(tmp_path / "unasked", artifacts=[])
    caplog.clear()
    with caplog.at_level(logging.WARNING, logger="headtohead"):
        folder = ended(tmp_path / "too-large", artifacts=["checkpoint"], artifact_megabytes=0.1)
    assert server.artifacts.held == {}
    assert message(caplog) == [
        f"the checkpoint of {folder.id} is not uploaded: it has 0.1 MB, and tracking.artifact_megabytes=0.1"
    ]


@pytest.mark.parametrize("behaviour", ["hangs", "drops"])
@pytest.mark.process
def test_server_that_fails_at_the_artifacts_delays_the_end_by_its_time_and_no_more(
    tmp_path: Path, server: WandbServer, caplog: pytest.LogCaptureFixture, behaviour: str
) -> None:
    server.then(behaviour, when=lambda seen: any(b"CreateArtifact" in body for body in seen.bodies))
    begun = time.monotonic()
    folder = ended(tmp_path, finish_timeout=6.0)
    assert time.monotonic() - begun < 60
    assert "artifacts are not uploaded" in caplog.text and "uploads the rest" in caplog.text

    server.behaviour = "healthy"
    (waiting,) = [what for run, at in runs_with_files(tmp_path) for what in uploads_needed(run, at)]
    assert upload(waiting, timeout=PATIENCE).trouble is None
    assert server.runs[wandb_id(folder)].steps("train/loss") == [0, 1, 2]
    assert f"artifacts/checkpoint-{wandb_id(folder)}/best.ckpt" in server.runs[wandb_id(folder)].files


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"artifacts": ["weights"]}, "tracking.artifacts has 'weights'; choose from record, checkpoint"),
        ({"artifact_megabytes": 0}, "tracking.artifact_megabytes is 0"),
        ({"artifact_days": -1}, "tracking.artifact_days is -1"),
    ],
)
def test_artifacts_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TrackingSettings(**settings)


@pytest.mark.parametrize("name", ["config.yaml", "record.json", "best.ckpt", "checkpoints"])
def test_a_link_in_a_run_has_nothing_uploaded_that_lies_elsewhere(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A stranger's run names the project that it is uploaded to."""
    record, folder = new_run(tmp_path / "outputs", config={"tracking": REQUESTED})
    folder.write_record(record)
    folder.write_config("seed: 1\n")
    folder.checkpoints.mkdir()
    (folder.checkpoints / "best.ckpt").write_bytes(b"own")
    linked = folder.checkpoints / name if name == "best.ckpt" else folder.path / name
    linked.rename(tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")
    before = (len(artifacts_of(folder, tmp_path / "copies")), message(caplog))
    files = {file for bundle in artifacts_of(folder, tmp_path / "copies") for file in bundle.files}
    assert files == {"config.yaml", "record.json", "best.ckpt"} - {"best.ckpt" if name == "checkpoints" else name}
    assert before[0] == (1 if name in ("best.ckpt", "checkpoints") else 2)
    assert any("leads out of the run by a link" in line for line in before[1])


@pytest.mark.parametrize(
    "odd", [{"artifacts": 3}, {"artifact_megabytes": "x"}, {"artifact_days": []}, {"artifacts": [3]}]
)
def test_a_record_with_odd_settings_is_refused_by_its_name(odd: dict[str, Any], tmp_path: Path) -> None:
    record, folder = new_run(tmp_path, config={"tracking": {**REQUESTED, **odd}})
    folder.write_record(record)
    with pytest.raises(UsageError, match="tracking"):
        has_pending_artifacts(folder)
