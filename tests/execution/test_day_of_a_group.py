"""A day in a group's life: three people, two studies and a sweep on one shared folder, a full disk, a node that is
taken back; in the evening every run is there once, whole, and archived without a loss to comparisons."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headtohead.records.run_folder import RunFolder, find_runs
from slurm_cluster import Cluster
from studies.small_studies import TINY, WRITTEN
from sweeps.small_sweeps import written_sweep
from waiting import PATIENCE, until
from warm_commands import WarmCommand, h2h

pytestmark = [
    pytest.mark.slow,
    pytest.mark.process,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the tests' cluster reads /proc"),
]
STEPS = 60
FULL = """
from faulty_disk import FullDisk
from headtohead.files import disk_operations
disk_operations.system = FullDisk("last.ckpt", after=4)
"""
"""A disk that has no room for more checkpoints after a few."""


class Group:
    """The shared folder, its studies, and the commands that people type."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.outputs = folder, folder / "outputs"
        self.cluster = Cluster(folder / "cluster")
        self.overrides = [*TINY, f"trainer.max_steps={STEPS}", "trainer.validate_every=10"]
        self._environment = {**os.environ, **self.cluster.environment, "HEADTOHEAD_CACHE": str(folder / "cache")}
        (folder / "study").mkdir()

    def write_study(self, name: str, seeds: int) -> None:
        config = {**WRITTEN, "base": self.overrides, "seeds": seeds}
        (self.folder / "study" / f"{name}.yaml").write_text(yaml.safe_dump(config))

    def starts(self, person: str, *command: str | Path, first: str = "") -> WarmCommand:
        """Return the command while it runs; what it says stands in a file by the person's name."""
        output = self.folder / f"{person}.txt"
        return WarmCommand(command, output=output, folder=self.folder, environment=self._environment, first=first)

    def types(self, *command: str | Path) -> str:
        """Return what a command says that ends well."""
        done = h2h(*command, folder=self.folder, environment=self._environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def output_of(self, person: str) -> str:
        return (self.folder / f"{person}.txt").read_text()

    def study(self, name: str, *more: str) -> tuple[str, ...]:
        return ("study", name, "--config-dir", str(self.folder), "--threads", "1", *more)


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Group]:
    made = Group(tmp_path)
    yield made
    made.cluster.close()


def is_training(study: Path) -> bool:
    return any(run.metrics_file.path.exists() for run in find_runs(study))


def verdict(text: str) -> Any:
    """Return what a comparison says, without the paths of its records."""
    return json.loads(text)["verdicts"]


def test_a_day_with_a_full_disk_and_a_node_taken_back_loses_nothing(group: Group) -> None:
    # 9:00. Ben sends his study to the cluster, Cleo starts her sweep, Ana begins hers on a disk that is almost full.
    group.write_study("ana", seeds=2)
    group.write_study("ben", seeds=2)
    ben = group.starts("ben", *group.study("ben", "--workers", "2", "launcher=slurm", "launcher.cpus_per_task=1"))
    sweep = written_sweep(group.folder)
    cleo = group.starts("cleo", "sweep", sweep, *group.overrides, f"output_dir={group.outputs}", "--threads", "1")
    ana = group.starts("ana", *group.study("ana", "--worker"), first=FULL)
    # 9:30. The node of both of Ben's jobs is needed for something else; they are queued again.
    studies = group.outputs / "studies"
    until(lambda: is_training(studies / "ben"))
    for job in group.cluster.jobs:
        job.preempt(grace_seconds=2.0)
    # 10:00. Ana's disk is full: her worker stops with a sentence. She makes room, and types the command again.
    assert ana.wait(PATIENCE) != 0 and "the disk is full" in group.output_of("ana"), group.output_of("ana")
    assert group.starts("ana", *group.study("ana")).wait(PATIENCE) == 0, group.output_of("ana")
    # 16:00. All have ended.
    assert (ben.wait(PATIENCE), cleo.wait(PATIENCE)) == (0, 0), group.output_of("ben") + group.output_of("cleo")
    assert [job.starts for job in group.cluster.jobs] == [2, 2]
    runs = list(find_runs(group.outputs))
    records = [run.read_record() for run in runs]
    assert Counter(record.status for record in records) == {"finished": 4 + 4 + 4}
    assert len({(record.group, record.content_hash) for record in records}) == 12, "none twice"
    for run in runs:
        assert run.metrics()["train/loss"].step == list(range(1, STEPS + 1)), "each step once"
    # 17:00. They look after their runs: nothing is damaged, and archives are compared as the runs were.
    assert len(json.loads(group.types("list", "runs", "outputs", "--json"))) == 12
    assert group.types("runs", "verify", "outputs") == "0 faults\n"
    compare = ("compare", studies / "ben", "--against", "a", "--json")
    before = verdict(group.types(*compare))
    assert "archive: 12 runs" in group.types("runs", "archive", "outputs", "--yes")
    assert verdict(group.types(*compare)) == before
    assert verdict(group.types("compare", studies / "ana", "--against", "a", "--json")) == before, "the same question"
    assert group.types("runs", "verify", "outputs") == "0 faults\n"
    group.types("runs", "restore", "outputs/studies/ben", "--yes")
    assert all((RunFolder.open(run.path).path / "checkpoints").is_dir() for run in find_runs(studies / "ben"))
