"""A record describes the place of a run without naming host or user."""

from __future__ import annotations

import getpass
import importlib
import json
import platform
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest

from headtohead.records import environment
from headtohead.records.environment import collect_environment, git_state


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


def test_the_commit_is_that_of_the_working_folder_and_the_packages_own_stands_beside_it(
    repository: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(elsewhere.parent))
    monkeypatch.setattr(environment, "__file__", str(repository / "tracking" / "environment.py"))
    (repository / "tracking").mkdir()
    head = git(repository, "rev-parse", "HEAD")
    monkeypatch.chdir(elsewhere)
    result = collect_environment({})
    assert (result.git_commit, result.package_commit, result.package_dirty) == (None, head, False)
    monkeypatch.chdir(repository)
    assert collect_environment({}).git_commit == head


def test_modules_of_ones_own_are_known_by_their_text_and_commit(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = repository / "own_mixers_of_a_test.py"
    own.write_text("class Own: ...\n")
    monkeypatch.syspath_prepend(str(repository))
    importlib.import_module(own.stem)
    config = {
        "model": {
            "mixer": {"_target_": f"{own.stem}.Own"},
            "parts": [{"_target_": "headtohead.data.sources.text_files.TextFiles"}],
        },
        "optimizer": {"_target_": "torch.optim.AdamW"},
    }
    ((name, result),) = collect_environment({}, config).modules.items()
    head = git(repository, "rev-parse", "HEAD")
    assert (name, result["commit"], result["dirty"]) == (own.stem, head, True), "it was never added"
    git(repository, "add", own.name)
    git(repository, "commit", "-q", "-m", "second")
    again = collect_environment({}, config).modules[own.stem]
    assert (again["dirty"], again["sha256"]) == (False, result["sha256"]) and again["commit"] != head
    own.write_text("class Own: changed = True\n")
    changed = collect_environment({}, config).modules[own.stem]
    assert changed["dirty"] and changed["sha256"] != result["sha256"]


def test_without_git_there_is_no_commit(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(repository))
    assert git_state(repository) == (None, None)


def test_the_environment_names_packages_and_device_but_neither_host_nor_user() -> None:
    result = collect_environment({"name": "cpu", "count": 1})

    assert result.python == platform.python_version()
    assert result.packages["wandb"]
    assert result.device == {"name": "cpu", "count": 1}
    message = json.dumps({name: value for name, value in asdict(result).items() if name != "packages"})
    assert platform.node() not in message or not platform.node()
    assert f'"{getpass.getuser()}"' not in message
