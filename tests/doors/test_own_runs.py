"""Runs of the user's own are known again by a signature of their content; those of others need the reader's word."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import headtohead as h2h
from fresh_runs import ROWS, fresh_run
from headtohead.cli import main
from headtohead.config.errors import ConfigurationError
from headtohead.config.trust import is_trusted
from headtohead.execution.launchers.launcher import LocalProcesses
from headtohead.execution.launchers.worker_commands import Workers
from headtohead.execution.multirun import Multirun, MultirunJob
from headtohead.records.run_folder import RunFolder
from headtohead.records.signatures import SIGNATURES, settings_folder

TEXT = [*ROWS, "data.tokenizer=byte", "data.context_length=16", "tracking=none"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that the command is given in, from which Python finds modules of the user's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path


@pytest.fixture
def own_run(tmp_path: Path) -> Path:
    return fresh_run(tmp_path / "own", *TEXT).folder


MINE = """
from headtohead.components.norms import LayerNorm

class MyNorm(LayerNorm):
    pass
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a norm of the user's own, made by this user; it is a folder's only run, beside the module of the
    norm."""
    position = tmp_path_factory.mktemp("mine")
    (position / "my_norms.py").write_text(MINE)
    choice = position / "conf" / "model" / "norm" / "mine.yaml"
    choice.parent.mkdir(parents=True)
    choice.write_text("# Mine.\n_target_: my_norms.MyNorm\n_partial_: true\n")
    small = ["model.num_layers=1", "model.d_model=16", "model.num_heads=2", "trainer.max_steps=1", "model/norm=mine"]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(position))
        saved = ["trainer.keep_checkpoints=all", f"output_dir={position / 'outputs'}"]
        folder = h2h.train(h2h.compose("train", [*TEXT, *small, *saved], position / "conf")).path
    assert folder is not None
    return folder


@pytest.fixture
def own_class(trained: Path, here: Path) -> Path:
    shutil.copy(trained.parents[2] / "my_norms.py", here)
    return Path(shutil.copytree(trained, here / "outputs" / trained.name))


def opened_all_ways(run: Path, *trust: str) -> list[int]:
    words = [word for name in trust for word in ("--trust", name)]
    commands = [
        ["generate", str(run), "--prompt", "the", "--max-new-tokens", "1"],
        ["train", "--from-run", str(run), "--cfg", "job"],
        ["train", f"resume_from={run}", "--cfg", "job"],
    ]
    return [main([*command, *words]) for command in commands]


@pytest.mark.slow
def test_ones_own_run_is_opened_without_a_word_also_where_its_folder_moved(own_class: Path, here: Path) -> None:
    assert opened_all_ways(own_class) == [0, 0, 0]
    moved = shutil.move(own_class, here / "elsewhere")
    assert opened_all_ways(Path(moved)) == [0, 0, 0]


@pytest.mark.slow
def test_an_edited_run_is_a_strangers(own_class: Path) -> None:
    for name, before, after in (
        ("config.yaml", "seed: 0", "seed: 1"),
        ("record.json", '"notes": null', '"notes": "edited"'),
    ):
        text = (own_class / name).read_text()
        assert before in text
        (own_class / name).write_text(text.replace(before, after))
    assert opened_all_ways(own_class) == [2, 2, 2]


@pytest.mark.slow
def test_a_run_of_another_user_needs_the_readers_word(
    own_class: Path, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "theirs"))
    assert opened_all_ways(own_class) == [2, 2, 2]
    assert "model.norm._target_=my_norms.MyNorm" in capsys.readouterr().err
    for name in ("my_norms", "my_norms.MyNorm"):
        assert opened_all_ways(own_class, name) == [0, 0, 0]
    assert opened_all_ways(own_class, "my_nor", "my_norms.My", "other") == [2, 2, 2]
    assert opened_all_ways(own_class) == [2, 2, 2], "a word is good for one command"
    with pytest.raises(ConfigurationError, match=r"trust=\['my_norms"):
        h2h.load_run(own_class)
    assert h2h.load_run(own_class, trust=["my_norms"]).config["model"]["norm"]["_target_"] == "my_norms.MyNorm"
    settings = here / "theirs" / "headtohead" / "settings.yaml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("trusted: [my_norms]\n")
    assert opened_all_ways(own_class) == [0, 0, 0]
    settings.write_text("trusted: my_norms\n")
    assert opened_all_ways(own_class) == [2, 2, 2] and str(settings) in capsys.readouterr().err


@pytest.mark.slow
def test_continuing_a_strangers_run_vouches_for_what_is_trained_and_not_for_its_record(
    own_class: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "theirs"))
    assert main(["train", f"resume_from={own_class}", "trainer.max_steps=2", "--trust", "my_norms"]) == 0
    assert opened_all_ways(own_class) == [0, 0, 2]


def test_workers_are_handed_what_their_command_was_told_to_trust() -> None:
    workers = Workers(LocalProcesses(), 2, 1, trust=["my_norms", "torchvision"])
    plan = Multirun((MultirunJob("run", 0, (), {"output_dir": "outputs", "trainer": {"devices": 1}}, "0"),), {})
    for command in workers.commands(["train"], plan, plan.jobs):
        assert " --trust my_norms --trust torchvision" in " ".join(command.arguments)


def test_a_trusted_package_is_trusted_for_what_is_its_own(here: Path) -> None:
    package = here / "owned"
    (package / "parts").mkdir(parents=True)
    (package / "__init__.py").write_text("import os\nfrom os import system\nfrom .parts.norms import Norm\n")
    (package / "parts" / "__init__.py").write_text("from owned.parts.norms import *\nfrom shutil import *\n")
    (package / "parts" / "norms.py").write_text("import os.path as p\nclass Norm:\n    def made(self): ...\n")
    for target in ("owned.Norm", "owned.parts.norms.Norm", "owned.parts.norms.Norm.made"):
        assert is_trusted(target, ["owned"]), target
    (package / "stars.py").write_text("from owned.parts.norms import *\n")
    assert is_trusted("owned.stars.Norm", ["owned"]) and not is_trusted("owned.stars.os.system", ["owned"])
    external = (
        "os.system",
        "owned.os.system",
        "owned.system",
        "owned.parts.norms.p.os.system",
        "owned.parts.os.system",
    )
    for target in (*external, "ownedly.Norm", "owned", "owned..Norm", "", None):
        assert target == "owned" or not is_trusted(target, ["owned"]), target
    assert is_trusted("owned.system", ["owned.system"]) and not is_trusted("owned.Norm", ["owned.parts"])


def test_a_key_is_the_users_alone_and_a_home_that_cannot_be_written_loses_comfort_only(
    own_run: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = settings_folder() / "key"
    assert key.stat().st_mode & 0o777 == 0o600 and len(key.read_bytes()) == 32
    run = Path(shutil.copytree(own_run, here / "run"))
    before = (run / SIGNATURES).read_text()
    (here / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "file"))
    RunFolder.open(run).sign(record=True)
    assert (run / SIGNATURES).read_text() == before
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "open"))
    RunFolder.open(run).sign(record=True)
    assert (run / SIGNATURES).read_text() != before
    (here / "open" / "headtohead" / "key").chmod(0o644)
    before = (run / SIGNATURES).read_text()
    RunFolder.open(run).sign(record=True)
    assert (run / SIGNATURES).read_text() == before, "a key that others may read signs nothing"


def test_processes_that_come_at_once_share_one_key(here: Path, monkeypatch: pytest.MonkeyPatch, own_run: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "new"))
    runs = [RunFolder.open(shutil.copytree(own_run, here / f"run{number}")) for number in range(8)]
    for run in runs:
        (run.path / SIGNATURES).unlink()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda run: run.sign(record=True), runs))
    assert len({(run.path / SIGNATURES).read_text() for run in runs}) == 1
    assert [path.name for path in (here / "new" / "headtohead").iterdir()] == ["key"]
