"""A launcher is chosen among overrides, in this project's words or in Hydra's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from headtohead.config.errors import ConfigurationError
from headtohead.execution.launchers.launcher import Command, LocalProcesses, processors
from headtohead.execution.launchers.ray_tasks import RayTasks
from headtohead.execution.launchers.slurm import Slurm
from headtohead.execution.launchers.submitit_jobs import SubmititLocal
from headtohead.execution.launchers.worker_commands import launcher_choice

OWN = """
from headtohead.execution.launchers.launcher import LocalProcesses


class Mine(LocalProcesses):
    def __init__(self, queue: str = "day") -> None:
        super().__init__()
        self.queue = queue

    def threads(self, workers: int) -> int:
        return 5
"""


def test_the_launcher_belongs_to_no_run() -> None:
    result = launcher_choice(["seed=0,1", "launcher=slurm", "launcher.partition=gpu", "model/norm=rms_norm"])
    assert result.of_runs == ("seed=0,1", "model/norm=rms_norm")
    launcher = result.make()
    assert isinstance(launcher, Slurm) and launcher.parameters["slurm_partition"] == "gpu"
    assert launcher.threads(8) == launcher.parameters["cpus_per_task"]


def test_unless_one_is_named_runs_are_processes_of_this_machine() -> None:
    launcher = launcher_choice(["seed=0"]).make()
    assert isinstance(launcher, LocalProcesses) and launcher.threads(processors()) == 1


@pytest.mark.parametrize(
    ("provided", "made", "workers"),
    [
        (["hydra/launcher=joblib"], LocalProcesses, processors()),
        (["hydra/launcher=joblib", "hydra.launcher.n_jobs=3"], LocalProcesses, 3),
        (["hydra.launcher.n_jobs=-1", "hydra/launcher=joblib"], LocalProcesses, processors()),
        (["hydra/launcher=submitit_slurm", "hydra.launcher.timeout_min=5"], Slurm, None),
        (["hydra/launcher=submitit_local"], SubmititLocal, None),
        (["hydra/launcher=ray"], RayTasks, None),
    ],
)
def test_hydras_own_names_mean_what_does_the_same_here(provided: list[str], made: type, workers: int | None) -> None:
    result = launcher_choice(provided)
    assert isinstance(result.make(), made) and result.workers == workers and not result.of_runs


@pytest.mark.slow
def test_a_cluster_of_ones_own_is_a_yaml_file(tmp_path: Path) -> None:
    (tmp_path / "launcher").mkdir()
    (tmp_path / "launcher" / "ours.yaml").write_text("# Ours.\ndefaults: [slurm]\npartition: a100\nsetup: [date]\n")
    launcher = launcher_choice(["launcher=ours", "launcher.timeout_min=60"]).make(tmp_path)
    assert isinstance(launcher, Slurm)
    assert launcher.parameters["slurm_partition"] == "a100" and launcher.parameters["slurm_setup"] == ["date"]


@pytest.mark.parametrize(("name", "package"), [("slurm", "submitit"), ("submitit_local", "submitit"), ("ray", "ray")])
def test_an_extra_that_is_missing_is_named(
    name: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    launcher = launcher_choice([f"launcher={name}"]).make()
    with pytest.raises(ConfigurationError, match=rf"needs the package {package}: pip install 'headtohead\["):
        launcher.submit([Command(("true",), tmp_path / "logs" / "0.log")])


@pytest.mark.slow
def test_a_launcher_of_ones_own_is_a_class_and_a_yaml_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_cluster.py").write_text(OWN)
    (tmp_path / "launcher").mkdir()
    (tmp_path / "launcher" / "mine.yaml").write_text("# Mine.\n_target_: my_cluster.Mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    launcher = launcher_choice(["launcher=mine", "launcher.queue=night"]).make(tmp_path)
    assert launcher.threads(3) == 5 and vars(launcher)["queue"] == "night"


@pytest.mark.parametrize(
    ("provided", "message"),
    [
        (["launcher=slrm"], r"launcher=slrm does not exist: did you mean slurm\?"),
        (["launcher=slurm", "launcher.partiton=x"], r"did you mean launcher.partition\?"),
        (["launcher=slurm", "launcher.timeout_min=long"], "it must be a whole number"),
        (["launcher=slurm", "launcher.cpus_per_task=0"], "it must be at least 1"),
        (["hydra/launcher=rq"], "choose with launcher=NAME"),
        (["hydra/launcher=joblib", "hydra.launcher.n_jobs=0"], "as --workers does"),
        (["hydra/launcher=joblib", "hydra.launcher.backend=loky"], "launcher.backend is not a field of launcher=local"),
    ],
)
def test_what_launches_nothing_is_refused(provided: list[str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        launcher_choice(provided).make()
