"""A full disk while a study runs: its worker stops, no run is taken for a result, and the same command goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from small_studies import TINY, plan_without_models, write_run
from test_worker import calls, pytestmark, trained, worked  # noqa: F401 - where there is no fork, there is no worker

from faulty_disk import FullDisk
from headtohead.building.configuration import compose_checked
from headtohead.files import disk as files_disk
from headtohead.files.disk import Disk, OutOfDisk
from headtohead.files.leases import Leases
from headtohead.studying.cells import Cell
from headtohead.studying.reporting import write
from headtohead.studying.running import FOUND_FULL, is_done, record_of, train_cell


def found_full(cell: Cell, folder: Path, budget: str | None, threads: int | None) -> None:
    trained(cell, folder, budget, threads)
    write_run(folder, status="out_of_disk", value=None)
    os._exit(FOUND_FULL)


@pytest.mark.process
def test_a_worker_that_finds_the_disk_full_stops_and_another_goes_on(tmp_path: Path) -> None:
    plan = plan_without_models(tmp_path)
    first = plan.cells[0]

    assert worked(plan, found_full) != 0
    assert calls(plan) == [first.id], "no other run is begun on a full disk, and none twice"
    assert not is_done(plan.run_folder(first))
    assert not Leases(plan.folder / "leases").is_held(first.id)

    assert worked(plan, trained) == 0
    assert all(is_done(plan.run_folder(cell)) for cell in plan.cells)


@pytest.mark.slow
@pytest.mark.parametrize("file", ["last.ckpt", "record.json"])
def test_a_run_of_a_study_that_finds_no_room_is_no_result(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell = Cell("a", 0, (), compose_checked("train", [*TINY]), "a0")
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(files_disk, "system", FullDisk(file))
    with pytest.raises(SystemExit) as told:
        train_cell(cell, tmp_path / "a0", None, 1)
    assert told.value.code == FOUND_FULL
    assert not is_done(tmp_path / "a0")

    monkeypatch.setattr(files_disk, "system", Disk())
    train_cell(cell, tmp_path / "a0", None, 1)
    record = record_of(tmp_path / "a0")
    assert record is not None and record.status == "finished", record and record.reason


def test_a_verdict_that_finds_no_room_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write({"verdicts": []}, tmp_path)
    before = file.read_bytes()
    monkeypatch.setattr(files_disk, "system", FullDisk(file.name))
    with pytest.raises(OutOfDisk, match=rf"the disk is full: .*{file.name} was not written"):
        write({"verdicts": [1]}, tmp_path)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [(file.name, before)]
