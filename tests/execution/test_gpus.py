"""GPUs of one machine among the runs of several workers: none has two at a time, and wide runs get theirs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from execution.counted_files import CountedFiles
from execution.launchers.patient_commands import all_ended
from headtohead.execution.gpus import GpuPool, GpuShare
from headtohead.execution.launchers.launcher import Command, LocalProcesses
from headtohead.execution.launchers.ray_tasks import RayTasks
from headtohead.execution.launchers.submitit_jobs import SubmititLocal
from headtohead.files import leases


def run(devices: int = 1, accelerator: str = "auto") -> dict[str, Any]:
    return {"trainer": {"devices": devices, "accelerator": accelerator}}


@pytest.fixture
def workers(tmp_path: Path) -> list[GpuPool]:
    return [GpuPool(tmp_path, 7, ["0", "1", "2", "3"]) for _ in range(5)]


def named(share: GpuShare | None) -> str | None:
    return None if share is None else share.environment.get("CUDA_VISIBLE_DEVICES", "all")


def test_runs_of_one_gpu_have_one_each_and_a_wide_one_waits_for_all(workers: list[GpuPool]) -> None:
    shares = [worker.take(run()) for worker in workers[:4]]
    assert [named(share) for share in shares] == ["0", "1", "2", "3"]
    assert named(workers[4].take(run())) is None
    for share in shares[:3]:
        assert share is not None
        share.release()
    assert named(workers[0].take(run(4))) is None, "one is still in use"
    assert named(workers[0].take(run(2))) == "0,1", "what the wide one could not have is free"


def test_a_wide_run_has_all_and_others_wait(workers: list[GpuPool]) -> None:
    share = workers[0].take(run(4))
    assert share is not None and named(share) == "0,1,2,3"
    assert named(workers[1].take(run())) is None and named(workers[1].take(run(2, "cpu"))) == "all"
    share.release()
    assert named(workers[1].take(run())) == "0"


def test_waiting_for_gpus_writes_nothing(workers: list[GpuPool], tmp_path: Path) -> None:
    workers[0].take(run(4))
    before = sorted(tmp_path.rglob("*"))
    assert all(worker.take(run(2)) is None for worker in workers[1:])
    assert sorted(tmp_path.rglob("*")) == before


def test_launchers_on_one_machine_are_apart_and_one_gpu_is_nobodys_to_divide(tmp_path: Path) -> None:
    first, second = (GpuPool(tmp_path, launcher, ["0", "1"]) for launcher in (7, 8))
    assert named(first.take(run(2))) == named(second.take(run(2))) == "0,1"
    assert named(GpuPool(tmp_path, 9, ["0"]).take(run())) == "all"
    assert named(GpuPool(tmp_path, 9, []).take(run(2))) == "all"


def test_machines_whose_launchers_have_the_same_number_are_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Containers give the same numbers to the processes they start."""
    here = GpuPool(tmp_path, 7, ["0", "1"])
    assert named(here.take(run(2))) == "0,1"
    elsewhere = replace(leases.system.this_process(), machine="elsewhere")
    monkeypatch.setattr(leases.system, "this_process", lambda: elsewhere, raising=False)
    assert named(GpuPool(tmp_path, 7, ["0", "1"]).take(run(2))) == "0,1"


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_gpus_cost_no_more_the_more_runs_have_had_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    files = CountedFiles(tmp_path / "leases" / "gpus")
    monkeypatch.setattr(leases, "system", files)
    pools = [GpuPool(tmp_path, 7, ["0", "1", "2", "3"]) for _ in range(workers)]
    costs = []
    for _ in range(3):
        files.read_names = files.opened = files.looked = 0
        for turn in range(100):
            share = pools[turn % workers].take(run(2))
            assert share is not None
            share.release()
        costs.append((files.read_names, files.opened, files.looked))
    assert costs[1] == costs[2] and costs[2][0] == 0, "each hundred costs what the last did, and reads no names again"


@pytest.mark.process
def test_workers_with_wide_runs_see_all_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    launcher = LocalProcesses()
    printed = ("/bin/sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    launcher.submit([Command(printed, tmp_path / f"{devices}", devices=devices) for devices in (1, 2)])
    words = {int(end.command.log.name): end.last_words for end in all_ended(launcher)}
    assert words == {1: "0", 2: "0,1,2"}


def test_jobs_and_tasks_ask_for_the_gpus_of_the_widest_run(tmp_path: Path) -> None:
    wide = Command(("true",), tmp_path / "log", devices=4)
    assert SubmititLocal(gpus_per_node=1).needs(4) == {"gpus_per_node": 4}
    assert SubmititLocal(gpus_per_node=8).needs(4) == {} and SubmititLocal().needs(4) == {}
    assert RayTasks(cpus=2, gpus=1).needs(wide) == {"num_cpus": 2, "num_gpus": 4}
    assert RayTasks(cpus=2).needs(wide) == {"num_cpus": 2, "num_gpus": 0}
    assert RayTasks(gpus=0.5).needs(Command(("true",), tmp_path / "log")) == {"num_cpus": 1, "num_gpus": 0.5}
