"""What is told of the place of a run, and what is not."""

from __future__ import annotations

import getpass
import json
import platform
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from headtohead.tracking import environment
from headtohead.tracking.environment import collect_environment, git_state


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", str(folder), *identity, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "first")
    return tmp_path


def test_a_clean_commit_is_told_apart_from_a_changed_one(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    assert git_state(repository) == (commit, False)

    (repository / "untracked").write_text("outputs and the like")
    assert git_state(repository) == (commit, False)

    (repository / "file").write_text("two")
    assert git_state(repository) == (commit, True)


def test_outside_a_repository_there_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_state(tmp_path) == (None, None)


def test_the_code_version_is_that_of_the_package_wherever_one_stands(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "__file__", str(repository / "environment.py"))
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert collect_environment({}).git_commit == git(repository, "rev-parse", "HEAD")


def test_a_package_outside_of_a_repository_leaves_the_version_to_the_working_directory(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path_factory.mktemp("installed")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(installed.parent))
    monkeypatch.setattr(environment, "__file__", str(installed / "environment.py"))
    monkeypatch.chdir(repository)
    assert collect_environment({}).git_commit == git(repository, "rev-parse", "HEAD")


def test_without_git_there_is_no_commit(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository))
    assert git_state(repository) == (None, None)


def test_the_environment_names_packages_and_device_but_neither_host_nor_user(tmp_path: Path) -> None:
    found = collect_environment({"name": "cpu", "count": 1}, code=tmp_path)

    assert found.python == platform.python_version()
    assert found.packages["wandb"]
    assert found.device == {"name": "cpu", "count": 1}
    told = json.dumps({name: value for name, value in asdict(found).items() if name != "packages"})
    assert platform.node() not in told or not platform.node()
    assert f'"{getpass.getuser()}"' not in told
