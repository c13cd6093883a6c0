"""A study whose arms take one process, and two or four that copy or shard: equal verdicts, also where processes are
killed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest
import yaml

from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder, scan
from studies.small_studies import TINY, WRITTEN
from waiting import PATIENCE, is_gone, until
from warm_commands import WarmCommand

pytestmark = [
    pytest.mark.slow,
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="workers fork"),
]
ARMS = {
    "one": [],
    "copies": ["trainer=ddp", "trainer.devices=2", "trainer.accelerator=cpu"],
    "shards": ["trainer=fsdp", "trainer.devices=2", "trainer.accelerator=cpu"],
}
OF_FOUR = {name: [arm[0], "trainer.devices=4", arm[2]] for name, arm in ARMS.items() if arm}


def study(folder: Path, steps: int, arms: Mapping[str, list[str]] = ARMS) -> WarmCommand:
    content = {
        **WRITTEN,
        "base": [
            *TINY,
            "model.dropout=0",
            f"trainer.max_steps={steps}",
            f"trainer.validate_every={max(2, steps // 10)}",
            f"output_dir={folder / 'out'}",
        ],
        "arms": dict(arms),
        "baseline": "one",
        "seeds": 2,
    }
    (folder / "study").mkdir(parents=True, exist_ok=True)
    (folder / "study" / "spread.yaml").write_text(yaml.safe_dump(content))
    environment = {**os.environ, "HEADTOHEAD_CACHE": str(folder / "cache")}
    command = ("study", "spread", "--config-dir", folder, "--workers", "2", "--threads", "1")
    return WarmCommand(command, output=folder / "said", environment=environment)


def records(folder: Path) -> dict[str, RunRecord]:
    return {record.name: record for record in scan(folder / "out" / "studies" / "spread" / "runs")}


def losses(folder: Path, arm: str) -> list[float]:
    return [records(folder)[f"{arm}-s{seed}"].metrics["test"]["loss"] for seed in (0, 1)]


def check(folder: Path, arms: Mapping[str, list[str]] = ARMS) -> None:
    message = (folder / "said").read_text()
    assert {record.status for record in records(folder).values()} == {"finished"}, message
    counts = {name: record.environment.device["count"] for name, record in records(folder).items()}
    devices = {name: int(arm[1].partition("=")[2]) if arm else 1 for name, arm in arms.items()}
    assert {name.rpartition("-")[0]: count for name, count in counts.items()} == devices
    for arm in set(arms) - {"one"}:
        assert losses(folder, arm) == pytest.approx(losses(folder, "one"), rel=1e-5)
    verdicts = json.loads((folder / "out" / "studies" / "spread" / "verdict.json").read_text())["verdicts"]
    assert len({verdict["kind"] for verdict in verdicts}) == 1
    assert "differ in more than what makes them" not in message


def test_arms_of_one_process_of_copies_and_of_shards_get_equal_verdicts(tmp_path: Path) -> None:
    arms = {**ARMS, **{f"four_{name}": arm for name, arm in OF_FOUR.items()}}
    assert study(tmp_path, 4, arms).wait(PATIENCE) == 0, (tmp_path / "said").read_text()
    check(tmp_path, arms)


def pairs(conductor: WarmCommand) -> list[tuple[psutil.Process, psutil.Process]]:
    """Return the first and the second process of each run that has both."""
    try:
        runs = [run for worker in conductor.started() for run in worker.children()]
        return [(run, second) for run in runs for second in run.children()]
    except psutil.NoSuchProcess:  # one ended meanwhile
        return []


def has_numbers(folder: Path) -> bool:
    """Return whether a run of two processes has logged a training step."""
    wide = [record for record in records(folder).values() if record.environment.device.get("count") == 2]
    return any(record.path is not None and RunFolder(record.path).metrics() for record in wide)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("victim", [0, 1], ids=["first", "second"])
def test_a_run_of_which_a_process_is_killed_goes_on_and_leaves_no_other_behind(tmp_path: Path, victim: int) -> None:
    conducted = study(tmp_path, steps=100)

    def seen() -> list[tuple[psutil.Process, psutil.Process]]:
        assert conducted.poll() is None, (tmp_path / "said").read_text()
        return pairs(conducted) if has_numbers(tmp_path) else []

    pair = until(seen)[0]
    pair[victim].kill()
    until(lambda: all(map(is_gone, pair)))
    assert conducted.wait(PATIENCE) == 0, (tmp_path / "said").read_text()
    check(tmp_path)
