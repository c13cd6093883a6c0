"""A full disk while a study runs: its worker stops, no run is taken for a result, and the same command goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faulty_disk import FullDisk
from headtohead.config.compose.composition import compose_checked
from headtohead.execution.run_spec import RunSpec
from headtohead.execution.single_run import DISK_FULL_BEFORE_START, is_done, record_of, train_run
from headtohead.files import disk_operations as files_disk
from headtohead.files.disk_operations import Disk, OutOfDisk
from headtohead.files.leases import Leases
from headtohead.studies.planning.registration import register, registered
from headtohead.studies.results.study_report import write
from studies.small_studies import TINY, plan_without_models, write_run
from studies.test_worker import calls, pytestmark, trained, worked  # noqa: F401 - where there is no fork, there is no worker


def found_full(run: RunSpec, folder: Path, budget: str | None, threads: int | None) -> None:
    trained(run, folder, budget, threads)
    write_run(folder, status="out_of_disk", value=None)
    os._exit(DISK_FULL_BEFORE_START)


@pytest.mark.process
def test_a_worker_that_finds_the_disk_full_stops_and_another_goes_on(tmp_path: Path) -> None:
    plan = plan_without_models(tmp_path)
    first = plan.runs[0]

    assert worked(plan, found_full) != 0
    assert calls(plan) == [first.id], "no other run is begun on a full disk, and none twice"
    assert not is_done(plan.run_folder(first))
    assert Leases(plan.folder / "leases").holder(first.id) is None

    assert worked(plan, trained) == 0
    assert all(is_done(plan.run_folder(run)) for run in plan.runs)


@pytest.mark.slow
@pytest.mark.parametrize("file", ["last.ckpt", "record.json"])
def test_a_run_of_a_study_that_finds_no_room_is_no_result(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunSpec("a", 0, (), compose_checked("train", [*TINY]), "a0")
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(files_disk, "system", FullDisk(file))
    with pytest.raises(SystemExit) as message:
        train_run(run, tmp_path / "a0", None, 1)
    assert message.value.code == DISK_FULL_BEFORE_START
    assert not is_done(tmp_path / "a0")

    monkeypatch.setattr(files_disk, "system", Disk())
    train_run(run, tmp_path / "a0", None, 1)
    record = record_of(tmp_path / "a0")
    assert record is not None and record.status == "finished", record and record.reason


def test_a_registration_that_finds_no_room_is_no_registration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_without_models(tmp_path)
    monkeypatch.setattr(files_disk, "system", FullDisk("registrations"))
    with pytest.raises(OutOfDisk, match=r"the disk is full: .*registrations.* was not written"):
        register(plan)
    assert registered(plan) is None and not list(plan.folder.rglob("registrations/*"))
    monkeypatch.setattr(files_disk, "system", Disk())
    register(plan)
    assert registered(plan) is not None


def test_a_verdict_that_finds_no_room_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write({"verdicts": []}, tmp_path)
    before = file.read_bytes()
    monkeypatch.setattr(files_disk, "system", FullDisk(file.name))
    with pytest.raises(OutOfDisk, match=rf"the disk is full: .*{file.name} was not written"):
        write({"verdicts": [1]}, tmp_path)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(file.name, before)]
