"""Runs under launchers that start a program several times."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from lightning_fabric.utilities.rank_zero import rank_zero_only

from headtohead.training.parallel.process_group import is_main_process, join_process_group
from headtohead.training.run import train
from training.runs import SETTINGS, parts


@pytest.fixture
def third_of_srun(monkeypatch: pytest.MonkeyPatch) -> None:
    """Number the process as `srun --ntasks=4` does."""
    message = {
        "NTASKS": "4",
        "NTASKS_PER_NODE": "4",
        "STEP_NUM_TASKS": "4",
        "PROCID": "2",
        "LOCALID": "2",
        "JOB_ID": "7",
    }
    for name, value in message.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    monkeypatch.setattr(rank_zero_only, "rank", 2)


def test_a_worker_that_srun_started_several_times_writes_every_record(third_of_srun: None, tmp_path: Path) -> None:
    assert not is_main_process()
    record = train(parts(tmp_path, max_steps=2))
    assert record.status == "finished" and (record.path / "record.json").is_file()


def test_as_many_processes_as_the_run_is_of_are_needed(third_of_srun: None, monkeypatch: pytest.MonkeyPatch) -> None:
    join_process_group(replace(SETTINGS, strategy="ddp", devices=2, num_nodes=2))
    assert not is_main_process(), "the run is of four processes, and this is one of them"
    with pytest.raises(ValueError, match=r"srun started 4 processes, and the run is of trainer.devices=2 x"):
        join_process_group(replace(SETTINGS, strategy="ddp", devices=2))
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match=r"torchrun started 2 processes.* give trainer=ddp"):
        join_process_group(SETTINGS)
