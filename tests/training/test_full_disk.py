"""A full disk in each phase of a run: its own status with a sentence, nothing unfinished left, and a way to go on."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from faulty_disk import FullDisk
from headtohead.files import disk_operations as files_disk
from headtohead.files.disk_operations import Disk, OutOfDisk
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import load_run
from headtohead.training.run import train
from headtohead.training.run_components import ProbeSettings
from headtohead.wandb_client import wandb_tracker
from headtohead.wandb_client.connection import TrackingSettings
from strict_probe import PROBE
from training.runs import curve, losses, parts


def filled(monkeypatch: pytest.MonkeyPatch, *names: str, after: int = 0) -> FullDisk:
    disk = FullDisk(*names, after=after)
    monkeypatch.setattr(files_disk, "system", disk)
    return disk


def unfinished(folder: Path) -> list[str]:
    return [str(file) for file in folder.rglob("*") if file.name.endswith(".part")]


def check_said(record: RunRecord, file: str) -> None:
    assert record.status == "out_of_disk" and record.path is not None
    assert record.reason is not None and file in record.reason, record.reason
    assert "free some space, then resume the run" in record.reason
    on_disk = load_run(record.path)
    assert (on_disk.status, on_disk.reason) == (record.status, record.reason)
    assert not unfinished(record.path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "after"),
    [
        ("metrics.csv", 0),
        ("metrics.csv", 7),
        ("best.ckpt", 0),
        ("last.ckpt", 0),
        ("last.ckpt", 1),
        ("test.npz", 0),
    ],
)
def test_a_run_that_finds_the_disk_full_says_so_and_goes_on_to_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, after: int
) -> None:
    disk = filled(monkeypatch, file, after=after)
    record = train(parts(tmp_path / "full"))
    assert disk.refused
    check_said(record, file)

    monkeypatch.setattr(files_disk, "system", Disk())
    resumed = train(parts(tmp_path, resume_from=record.path))

    assert (resumed.status, resumed.id) == ("finished", record.id)
    assert curve(resumed.path) == losses(tmp_path / "plain")


def test_a_record_that_finds_no_room_while_a_run_trains_ends_it_with_the_room_that_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class UntilGiven(FullDisk):
        """Full for records as long as the run keeps its room."""

        def write(self, handle: int, data: object) -> int:
            saved = list(tmp_path.rglob(".room.part"))
            begun = list(tmp_path.rglob("metrics.csv"))
            return super().write(handle, data) if saved and begun else Disk.write(self, handle, data)  # type: ignore[arg-type]

    monkeypatch.setattr(files_disk, "system", UntilGiven("record.json"))
    check_said(train(parts(tmp_path)), "record.json")


@pytest.mark.slow
def test_a_run_whose_record_finds_no_room_at_all_ends_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    filled(monkeypatch, "record.json", after=4)
    record = train(parts(tmp_path))
    assert record.status == "out_of_disk"
    assert "the record of this run still says that it is running" in caplog.text


@pytest.mark.parametrize("file", ["writer.1", ".room.part", "config.yaml", "record.json"])
def test_a_run_that_finds_no_room_to_begin_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    filled(monkeypatch, file)
    with pytest.raises(OutOfDisk, match=r"the disk is full: .* was not written: free some space, then run the command"):
        train(parts(tmp_path))
    assert not [path for path in tmp_path.rglob("*") if path.is_file() or path.parent.name == "default"]


def test_a_checkpoint_that_would_not_fit_ends_the_run_before_it_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Small(Disk):
        def free_bytes(self, folder: Path) -> int:
            return 10**4

    monkeypatch.setattr(files_disk, "system", Small())
    record = train(parts(tmp_path))
    check_said(record, "best.ckpt")
    assert record.reason is not None and "MB are needed, and 0.0 MB are free" in record.reason


@pytest.mark.slow
def test_no_room_for_the_files_of_wandb_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_room(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(wandb_tracker, "_open", no_room)
    record = train(parts(tmp_path, tracking=TrackingSettings(mode="offline")))
    assert record.status == "finished"
    assert "W&B cannot start ([Errno 28] No space left on device)" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "sentence"),
    [("samples.csv", "the run continues without them"), ("attention/", "the run continues without attention maps")],
)
def test_samples_and_pictures_that_find_no_room_cost_themselves_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, file: str, sentence: str
) -> None:
    monkeypatch.setattr(PROBE, "filters", [])  # in other tests its warnings are errors
    disk = filled(monkeypatch, file)
    record = train(parts(tmp_path, probe=ProbeSettings(), num_samples=8))
    assert disk.refused and record.path is not None and record.status == "finished"
    assert "the disk is full: " in caplog.text and sentence in caplog.text
    assert not unfinished(record.path)


@pytest.mark.slow
def test_a_kill_between_the_test_and_the_end_leaves_no_row_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record that says `finished` is the one write after the rows of the test."""
    disk = filled(monkeypatch, "test.npz")
    record = train(parts(tmp_path))
    assert disk.refused and record.path is not None
    assert "test/loss" in (record.path / "metrics.csv").read_text()

    monkeypatch.setattr(files_disk, "system", Disk())
    resumed = train(parts(tmp_path, resume_from=record.path))

    assert resumed.status == "finished"
    rows = [line.split(",") for line in (record.path / "metrics.csv").read_text().splitlines()]
    keys = [(row[0], row[5]) for row in rows]
    assert len(keys) == len(set(keys))
    assert any(name == "test/loss" for _, name in keys)
