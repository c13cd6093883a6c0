"""A study that adds seeds until it is decided, trained for real, killed and resumed by two workers: it decides
what it decides undisturbed."""

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
    pytest.mark.process,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="workers fork"),
]
ARMS = {"slow": ["optimizer.lr=1e-6"], "fast": ["optimizer.lr=0.03"], "slower": ["optimizer.lr=1e-7"]}
"""Whatever the rounding, the second learns something in every seed, and the third does what the first does."""
SEEDS = {"start": 2, "most": 9, "until": "decided"}


def study(folder: Path, *options: str) -> WarmCommand:
    base = [*TINY, "trainer.max_steps=20", "trainer.validate_every=10", f"output_dir={folder / 'out'}"]
    config = {**WRITTEN, "base": base, "arms": ARMS, "baseline": "slow", "seeds": SEEDS}
    (folder / "study").mkdir(parents=True, exist_ok=True)
    (folder / "study" / "small.yaml").write_text(yaml.safe_dump(config))
    environment = {**os.environ, "HEADTOHEAD_CACHE": str(folder / "cache")}
    command = ("study", "small", "--config-dir", folder, "--threads", "1", *options)
    return WarmCommand(command, output=folder / "log", environment=environment)


def finish(folder: Path, *options: str) -> None:
    assert study(folder, *options).wait(PATIENCE) == 0, (folder / "log").read_text()


def kill_after(folder: Path, runs: int, *options: str) -> None:
    """Kill the conductor once so many runs are done; its workers end by themselves."""
    conductor = study(folder, *options)
    while num_done(folder) < runs:
        assert conductor.poll() is None, (folder / "log").read_text()
        time.sleep(0.05)
    conductor.send_signal(signal.SIGKILL)
    conductor.wait(PATIENCE)


def num_done(folder: Path) -> int:
    records = folder.glob("out/studies/small/runs/*/record.json")
    return sum('"status": "finished"' in record.read_text() for record in records)


def verdicts(folder: Path) -> Any:
    """Return what each verdict says, and with which seeds and evidence."""
    answer = json.loads((folder / "out" / "studies" / "small" / "verdict.json").read_text())
    assert answer["complete"]
    return answer["verdicts"], sorted((run["arm"], run["seed"]) for run in answer["runs"])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the study undisturbed."""
    folder = tmp_path_factory.mktemp("whole")
    finish(folder)
    return folder


@pytest.mark.parametrize(
    "claims_address", ["leases", pytest.param("postgres", marks=pytest.mark.whole)], indirect=True
)  # the gate kills workers that claim there in test_killed_studies.py
def test_a_killed_study_resumed_by_two_workers_decides_what_it_decides_undisturbed(
    whole: Path, tmp_path: Path, claims_address: str | None
) -> None:
    broken = tmp_path / "broken"
    claims = [f"launcher.claims='{claims_address}'"] if claims_address else []
    kill_after(broken, 2, *claims)  # within the first round
    kill_after(broken, 10, "--workers", "2")  # between later ones
    finish(broken, "--workers", "2")
    (ours, our_runs), (theirs, their_runs) = verdicts(whole), verdicts(broken)
    assert ours == theirs and our_runs == their_runs
    assert ours[0]["p_adjusted"] < 0.05 and len(ours[0]["seeds"]) < 9, "decided, before all seeds were in"
    assert all(verdict["seed_evidence"]["stop"]["reason"] != "open" for verdict in ours)
    assert len(our_runs) <= 27
