"""The id of a run on W&B: its own, written before W&B's client starts, found again wherever the folder goes."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest

from headtohead.cli import main
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.wandb_client import wandb_tracker as tracking_wandb
from headtohead.wandb_client.run_metadata import assign_run_id, beside_config, tags_of
from headtohead.wandb_client.wandb_tracker import start
from run_folders import OFFLINE, new_run, wandb_id


def begun(outputs: Path) -> RunFolder:
    record, folder = new_run(outputs)
    assign_run_id(record, folder)
    return folder


def resumed(path: Path) -> str:
    """Return the W&B id of this folder's run after another start."""
    folder = RunFolder(path)
    assign_run_id(folder.read_record_as_written(), folder)
    return wandb_id(folder)


def test_runs_of_equal_content_are_runs_of_their_own(tmp_path: Path) -> None:
    ids = []
    for study in ("first", "second", "of a colleague"):
        folder = RunFolder.create_at(tmp_path / study / "0123456789ab")
        assign_run_id(RunRecord(id=folder.id, content_hash="0123456789ab"), folder)
        ids.append(wandb_id(folder))
    assert len(set(ids)) == 3 and "0123456789ab" not in ids


def test_the_id_is_on_disk_before_the_client_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, folder = new_run(tmp_path)
    seen: list[str] = []

    def killed(*_: object) -> None:
        seen.append(wandb_id(folder))
        raise KeyboardInterrupt

    monkeypatch.setattr(tracking_wandb, "_open", killed)
    with pytest.raises(KeyboardInterrupt):
        start(OFFLINE, record, folder)
    assert seen == [record.wandb.id] and resumed(folder.path) == seen[0]


def test_an_agents_id_is_taken_as_given_and_kept_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_RUN_ID", "agents-own")
    assert wandb_id(begun(tmp_path)) != "agents-own", "no agent started it"
    monkeypatch.setenv("WANDB_SWEEP_ID", "s1")
    folder = begun(tmp_path)
    assert wandb_id(folder) == "agents-own"
    monkeypatch.delenv("WANDB_SWEEP_ID")
    assert resumed(folder.path) == "agents-own"


def test_a_folder_that_was_moved_keeps_its_id(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = begun(tmp_path / "here")
    before = wandb_id(folder)
    (tmp_path / "there").mkdir()
    moved = folder.path.rename(tmp_path / "there" / folder.id)
    assert resumed(moved) == before
    linked = tmp_path / "link"
    linked.symlink_to(moved.parent)
    assert resumed(linked / folder.id) == before, "the same folder by another name"
    assert caplog.text == ""


def test_a_copy_of_a_folder_becomes_a_run_of_its_own_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = begun(tmp_path / "here")
    before = wandb_id(folder)
    copy = shutil.copytree(folder.path, tmp_path / "there" / folder.id)
    with caplog.at_level(logging.WARNING, logger="headtohead"):
        own = resumed(copy)
    assert own != before and f"which keeps W&B run {before}" in caplog.text
    assert (resumed(copy), resumed(folder.path)) == (own, before)


def test_sync_leaves_a_copy_out_and_names_its_original(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = begun(tmp_path / "here")
    files = folder.wandb / "offline-run-1"
    files.mkdir(parents=True)
    (files / "run-1.wandb").touch()
    folder.mark_abandoned()
    shutil.copytree(folder.path, tmp_path / "there" / folder.id)
    assert main(["sync", str(tmp_path), "--dry-run"]) == 0
    message = capsys.readouterr()
    assert "1 run to upload" in message.out and "a copy of " in message.err


def test_the_content_is_a_field_and_a_tag() -> None:
    record = RunRecord(id="a", content_hash="0123456789ab")
    assert beside_config(record)["content_hash"] == "0123456789ab" and tags_of(record) == ["content-0123456789ab"]
    assert "content_hash" not in beside_config(RunRecord(id="a")) and tags_of(RunRecord(id="a")) == []
