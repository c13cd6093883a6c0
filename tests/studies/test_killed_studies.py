"""A tuned study, trained for real and killed again and again, says in the end what it says undisturbed."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from studies.small_studies import TINY, WRITTEN
from waiting import PATIENCE
from warm_commands import WarmCommand

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="workers fork"),
]
TUNING = {"search": "grid", "trials": 2, "space": {"optimizer.lr": [0.001, 0.01]}, "steps": 20}
THREADS = ("--threads", "1")
"""Sums in another order, over other threads, differ in their last digits."""
OF_TIME = {"seconds", "tokens_per_second", "samples_per_second", "peak_memory_bytes", "folder", "time"}
"""The fields that no two runs have alike; peak memory is that of a process, and a registration has its time."""


def study(folder: Path, *options: str) -> WarmCommand:
    config = {
        **WRITTEN,
        "base": [*TINY, "trainer.max_steps=40", "trainer.validate_every=10", f"output_dir={folder / 'out'}"],
        "seeds": 2,
        "tuning": TUNING,
        "budget": {"equal_parameters": {"tolerance": 0.1}},
    }
    (folder / "study").mkdir(parents=True, exist_ok=True)
    (folder / "study" / "small.yaml").write_text(yaml.safe_dump(config))
    environment = {**os.environ, "HEADTOHEAD_CACHE": str(folder / "cache")}
    command = ("study", "small", "--config-dir", folder, *THREADS, *options)
    return WarmCommand(command, output=folder / "said", environment=environment)


def finish(folder: Path) -> None:
    assert study(folder).wait(PATIENCE) == 0, (folder / "said").read_text()


def done(folder: Path) -> int:
    records = folder.glob("out/studies/small/runs/*/record.json")
    return sum('"status": "finished"' in record.read_text() for record in records)


def until(process: WarmCommand, folder: Path, runs: int) -> None:
    """So many runs are done, and the next has begun."""
    while done(folder) < runs:
        assert process.poll() is None
        time.sleep(0.05)


def verdict(folder: Path) -> dict[str, Any]:
    message = json.loads((folder / "out" / "studies" / "small" / "verdict.json").read_text())
    assert isinstance(message, dict)
    return message


def without_times(message: Any) -> Any:
    if isinstance(message, dict):
        return {key: without_times(value) for key, value in message.items() if key not in OF_TIME}
    return [without_times(value) for value in message] if isinstance(message, list) else message


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the study undisturbed."""
    folder = tmp_path_factory.mktemp("whole")
    finish(folder)
    return folder


@pytest.mark.sampled(1)
@pytest.mark.process
def test_a_study_whose_conductor_and_workers_are_killed_says_what_it_says_undisturbed(
    whole: Path, tmp_path: Path, claims_address: str | None
) -> None:
    broken = tmp_path / "broken"
    first = study(broken, *([f"launcher.claims='{claims_address}'"] if claims_address else []))
    until(first, broken, 1)  # among the trials
    os.kill(first.pid, signal.SIGKILL)
    first.wait(PATIENCE)
    second = study(broken, "--workers", "2")
    until(second, broken, 5)  # among the runs that follow from them
    for worker in second.started():
        worker.kill()
    second.wait(PATIENCE)
    finish(broken)
    ours, theirs = (json.loads(json.dumps(verdict(f)).replace(str(f), "FOLDER")) for f in (whole, broken))
    assert ours["complete"] and len(ours["runs"]) == 8
    assert without_times(ours) == without_times(theirs)
    assert (broken / "out" / "studies" / "small" / "report.html").is_file()
    assert (broken / "out" / "studies" / "small" / "claims").is_file() == (claims_address is not None)
