"""Hydra's command lines work, or are refused with what to type instead."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from headtohead.cli import main
from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from waiting import PATIENCE


@pytest.mark.parametrize(
    ("words", "instead"),
    [
        ("--config-name mine", "experiment=NAME"),
        ("-cn mine", "experiment=NAME"),
        ("--config-path conf", "--config-dir DIR"),
        ("-cp=conf", "--config-dir DIR"),
        ("--cfg hydra", "--cfg job"),
        ("--hydra-help", "h2h list GROUP"),
        ("--shell-completion install=bash", "--install-completion"),
        ("--experimental-rerun x.pickle", "--from-run"),
        ("--package model", "--cfg job"),
        ("hydra.searchpath=[x]", "--config-dir DIR"),
        ("hydra.mode=MULTIRUN", "-m makes many runs"),
        ("hydra.verbose=true", "HEADTOHEAD_DEBUG=1"),
        ("hydra.run.dir=x", "output_dir=DIR"),
        ("hydra.sweep.dir=x", "output_dir=DIR"),
        ("hydra.sweeper.n_trials=3", "h2h sweep FILE"),
        ("hydra/sweeper=optuna", "h2h sweep FILE"),
        ("hydra.job.name=x", "name=NAME"),
        ("hydra.job.chdir=true", "output_dir"),
        ("hydra/job_logging=disabled", "standard error"),
        ("hydra.output_subdir=null", "config.yaml"),
        ("hydra.anything=1", "output_dir"),
        ("--resolve", "--cfg job"),
        ("model={}", "h2h list model"),
        ("-m model={}", "h2h list model"),
        ("~model.mixer", "model/mixer=CHOICE"),
        ("~trainer.nothing", "is not a field"),
        ("~nothing.nothing", "there is no nothing"),
        ("~trainer.patience=3", "trainer.patience is null"),
        ("data.path=book.txt", "text"),
    ],
)
def test_a_habit_that_means_nothing_here_is_told_what_does(
    words: str, instead: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *words.split()]) == 2
    shown = capsys.readouterr().err
    assert instead in shown and shown.count("\n") == 1


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["train", *words]) == 0
    return capsys.readouterr().out


def test_a_part_of_the_configuration_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    whole = yaml.safe_load(printed(capsys, "--cfg", "all", "--resolve"))
    assert yaml.safe_load(printed(capsys, "-c", "job", "-p", "model.mixer")) == whole["model"]["mixer"]
    assert printed(capsys, "--cfg", "job", "--package", "seed", "seed=7") == "7\n"


@pytest.mark.slow
def test_info_names_folders_and_choices(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown = printed(capsys, "--info", "--config-dir", str(tmp_path), "model/norm=rms_norm")
    assert str(tmp_path) in shown and "model/norm: rms_norm" in shown


@pytest.mark.parametrize("field", ["trainer.patience", "trainer.max_steps", "data.context_length", "optimizer.betas"])
def test_a_field_that_is_taken_away_has_its_constructors_default(field: str) -> None:
    group, name = field.split(".")
    assert name not in compose_checked("train", [f"~{field}"])[group]


def test_setting_and_taking_away_happen_in_order() -> None:
    away, again = "~data.context_length", "data.context_length=24"
    assert compose_checked("train", [away, again])["data"]["context_length"] == 24
    assert "context_length" not in compose_checked("train", [again, away])["data"]


@pytest.mark.slow
def test_an_experiment_without_header_is_told_of_it(tmp_path: Path) -> None:
    file = tmp_path / "experiment" / "mine.yaml"
    file.parent.mkdir()
    file.write_text("seed: 3\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match=f"{file} has no header.*# @package _global_"):
        compose_checked("train", ["experiment=mine"], tmp_path)
    file.write_text("# @package _global_\nseed: 3\n", encoding="utf-8")
    assert compose_checked("train", ["experiment=mine"], tmp_path)["seed"] == 3


def test_hints_stay_near() -> None:
    with pytest.raises(ConfigurationError) as refused:
        compose_checked("train", ["data.path=book.txt"])
    assert "text" in str(refused.value) and "csv" in str(refused.value) and "drop_path" not in str(refused.value)
    with pytest.raises(ConfigurationError, match=r"did you mean optimizer\.lr"):
        compose_checked("train", ["lr=0.1"])


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "headtohead" / "conf"
    (own / "experiment").mkdir(parents=True)
    (own / "experiment/mine.yaml").write_text("# @package _global_\n# What I try\nseed: 31\n", encoding="utf-8")
    return own


@pytest.mark.slow
def test_a_folder_of_ones_own_is_found_by_itself_and_named(
    own_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "experiment=mine", "--cfg", "job", "-p", "seed"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "31\n" and "headtohead/conf" in shown.err
    assert main(["list", "experiment"]) == 0
    assert "What I try" in capsys.readouterr().out
    (own_folder / "study").mkdir()
    (own_folder / "study/own_question.yaml").write_text("# Mine\nquestion: Which?\n", encoding="utf-8")
    assert main(["list", "study"]) == 0
    assert "own_question" in capsys.readouterr().out


def test_a_file_that_would_be_passed_over_is_named(own_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (own_folder / "optimizer").mkdir()
    own = own_folder / "optimizer/adamw.yaml"
    own.write_text("_target_: torch.optim.AdamW\nlr: 0.5\n", encoding="utf-8")
    assert main(["train", "optimizer=adamw", "--cfg", "job"]) == 2
    assert str(own) in capsys.readouterr().err


@pytest.mark.process
@pytest.mark.parametrize("start", [["-m", "headtohead"], ["-c", "from headtohead.cli import main; main()"]])
def test_a_module_in_the_working_folder_hides_no_installed_one_and_is_found(tmp_path: Path, start: list[str]) -> None:
    (tmp_path / "yaml.py").write_text("raise SystemExit('the yaml of the folder')\n", encoding="utf-8")
    (tmp_path / "my_norms.py").write_text(
        "from headtohead.components.norms import LayerNorm as Mine\n", encoding="utf-8"
    )
    safe = ["-P"] if start[0] == "-c" else []  # as the installed script `h2h`, whose own folder comes first
    typed = ["train", "model.norm._target_=my_norms.Mine", "--cfg", "job", "-p", "model.norm._target_"]
    done = subprocess.run(
        [sys.executable, *safe, *start, *typed],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.stdout == "my_norms.Mine\n", done.stderr
