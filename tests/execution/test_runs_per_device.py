"""Runs side by side on one device: as many as its memory holds of the largest, measured once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.errors import UsageError
from headtohead.execution.launchers.worker_commands import workers_for
from headtohead.execution.multirun import Multirun, planned_jobs
from headtohead.execution.runs_per_device import FILE, RunMemory, run_memory

SMALL = [
    "model.d_model=16", "model.num_layers=1", "model.num_heads=2", "data.num_train=16", "data.num_validation=8",
    "data.num_test=8", "data.context_length=16", "data.batch_size=4", "data.tokenizer=char",
    "trainer.accelerator=cpu", "tracking=none",
]  # fmt: skip


def plan_of(folder: Path, *widths: int) -> Multirun:
    points = [[*SMALL, f"output_dir={folder}", f"model.d_model={width}", f"name=width{width}"] for width in widths]
    return planned_jobs(points, lambda words: compose_checked("train", words))


@pytest.fixture
def sixteen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the machine have sixteen processors, and devices whose memory holds five of the runs."""
    for name in ("worker_commands", "launcher"):
        monkeypatch.setattr(f"headtohead.execution.launchers.{name}.processors", lambda: 16)
    monkeypatch.setattr("headtohead.execution.runs_per_device.run_memory", lambda *_, **__: RunMemory("", 9, 51))


@pytest.mark.usefixtures("sixteen")
@pytest.mark.parametrize(
    ("gpus", "words", "options", "expected"),
    [
        ("", [], {}, (1, 16)),
        ("", ["launcher.runs_per_device=auto"], {}, (5, 3)),
        ("", ["launcher.runs_per_device=auto"], {"threads": 4}, (4, 4)),
        ("", ["launcher.runs_per_device=3"], {}, (3, 5)),
        ("0", ["launcher.runs_per_device=auto"], {}, (5, 3)),
        ("0,1", ["launcher.runs_per_device=auto"], {}, (10, 1)),
        ("0,1", ["launcher.runs_per_device=auto"], {"number": 4}, (4, 4)),
        ("0,1,2,3", ["launcher.runs_per_device=2"], {"threads": 1}, (8, 1)),
    ],
)
def test_so_many_workers_are_started_with_so_many_threads(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gpus: str,
    words: list[str],
    options: dict[str, int],
    expected: tuple[int, int],
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
    workers, _ = workers_for(words, **options)  # type: ignore[arg-type]
    plan = plan_of(tmp_path, 16)
    commands = workers.commands(["train"], plan, plan.jobs)
    assert (len(commands), commands[0].threads) == expected
    assert len(workers.commands(["train"], plan, plan.jobs, most=1)) == 1


def test_runs_over_several_devices_have_theirs_to_themselves(tmp_path: Path) -> None:
    workers, _ = workers_for(["launcher.runs_per_device=auto"])
    wide = [*SMALL, f"output_dir={tmp_path}", "trainer=ddp", "trainer.devices=2"]
    plan = planned_jobs([wide], lambda words: compose_checked("train", words))
    with pytest.raises(ConfigurationError, match="say with --workers"):
        workers.commands(["train"], plan, plan.jobs)


@pytest.mark.process
def test_memory_is_measured_once_on_the_largest_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(tmp_path, 16, 64, 32)
    measured = run_memory(plan, plan.jobs)
    assert measured.run == next(job.id for job in plan.jobs if job.name == "width64")
    assert 2**26 < measured.bytes < 2**33 and measured.available > measured.bytes and measured.at_once >= 1
    assert json.loads((plan.folder / FILE).read_text())["bytes"] == measured.bytes
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("it is known already"))
    assert run_memory(plan, plan.jobs[1:]) == measured


@pytest.mark.process
def test_a_run_that_cannot_be_measured_is_refused_by_its_own_words(tmp_path: Path) -> None:
    (job,) = plan_of(tmp_path, 16).jobs
    broken = replace(job, config={**job.config, "optimizer": {**job.config["optimizer"], "_target_": "nowhere.none"}})
    with pytest.raises(UsageError, match=r"to measure its memory \(.*nowhere.*give a number instead"):
        run_memory(Multirun((broken,), {}), [broken])
