"""A shell completes commands, options, groups, choices, fields and runs, by the script that `h2h` gives it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headtohead.cli import COMMANDS, main
from headtohead.cli.completion import PATH_OPTIONS, RUNS, candidates
from headtohead.config.compose.choices import choices, groups
from headtohead.config.compose.composition import compose
from headtohead.config.schema.key_checks import fields_of


def completed(line: str) -> list[str]:
    return candidates(line.split(" "), COMMANDS)


def test_commands_options_and_studies_are_completed() -> None:
    assert completed("tr") == ["train"]
    assert completed("train --from") == ["--from-run"]
    assert completed("study positions_e") == ["positions_extrapolation"]
    assert completed("nonsense mod") == []
    for command in COMMANDS:
        assert "--help" in completed(f"{command} --")


def test_what_is_completed_with_paths_is_a_command_or_an_option() -> None:
    assert set(COMMANDS) >= RUNS
    assert {option for command in COMMANDS for option in completed(f"{command} --")} >= PATH_OPTIONS


def test_every_group_offers_its_choices() -> None:
    for group in groups():
        assert completed(f"train {group}=") == [f"{group}={choice.name}" for choice in choices(group)]


def test_fields_are_those_of_the_choice_that_was_typed() -> None:
    assert "model.mixer.state=" in completed("train model/mixer=mamba model.mixer.")
    assert "model.mixer.state=" not in completed("train model.mixer.")
    assert completed("train model=vision_transformer model.patch") == ["model.patch_size="]
    assert completed("train see") == ["seed="]


@pytest.mark.parametrize("group", ["data", "task", "model", "optimizer", "trainer", "probe", "tracking", "model/mixer"])
def test_fields_of_the_default_choices_are_those_of_the_schema(group: str) -> None:
    node = compose("train")
    for part in group.split("/"):
        node = node[part]
    known = fields_of(group, node)
    assert known is not None
    dotted = group.replace("/", ".")
    assert {name.rstrip("=.") for name in completed(f"train {dotted}.")} == {f"{dotted}.{key}" for key in known.kinds}


def test_runs_and_folders_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outputs/default/one").mkdir(parents=True)
    (tmp_path / "outputs/default/one/record.json").touch()
    assert completed("generate out") == ["outputs/"]
    assert completed("generate outputs/default/") == ["outputs/default/one"]
    assert completed("train resume_from=outputs/default/o") == ["resume_from=outputs/default/one"]
    assert completed("train --from-run outputs/default/o") == ["outputs/default/one"]


def test_choices_of_ones_own_are_completed(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment/mine_alone.yaml").touch()
    assert completed(f"train --config-dir {tmp_path} experiment=mine_a") == ["experiment=mine_alone"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_written_where_the_shell_finds_it(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert main(["--show-completion", shell]) == 0
    script = capsys.readouterr().out
    assert main(["--install-completion", shell]) == 0
    (written,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert str(written) in capsys.readouterr().out and written.read_text(encoding="utf-8") == script


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--show-completion", "tcsh"]) == 2
    assert "bash, zsh, fish" in capsys.readouterr().err


@pytest.mark.process
@pytest.mark.parametrize(
    ("line", "words", "reply"),
    [
        ("h2h tra", ["h2h", "tra"], ["train"]),
        ("h2h train model=vis", ["h2h", "train", "model", "=", "vis"], ["vision_transformer"]),
        ("h2h train task=", ["h2h", "train", "task", "="], [choice.name for choice in choices("task")]),
        ("h2h train model.patt", ["h2h", "train", "model.patt"], ["model.pattern="]),
    ],
)
def test_bash_takes_the_words_as_it_breaks_them(line: str, words: list[str], reply: list[str], tmp_path: Path) -> None:
    (tmp_path / "h2h").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m headtohead "$@"\n', encoding="utf-8")
    (tmp_path / "h2h").chmod(0o755)
    quoted = " ".join(f"'{word}'" for word in words)
    script = (
        f'export PATH="{tmp_path}:$PATH"; eval "$(h2h --show-completion bash)"; COMP_LINE=\'{line}\'; '
        f"COMP_POINT={len(line)}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _h2h; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == reply


@pytest.mark.process
@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_script(shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed, and only {shell} can say whether its script is one")
    assert main(["--show-completion", shell]) == 0
    (tmp_path / "script").write_text(capsys.readouterr().out, encoding="utf-8")
    done = subprocess.run([shell, "-n", str(tmp_path / "script")], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.process
def test_completing_imports_neither_torch_nor_hydra() -> None:
    code = (
        "import sys; from headtohead.cli import main; main(['--complete', 'train', 'model.mixer.']); "
        "print(sorted({'torch', 'hydra', 'omegaconf', 'numpy', 'lightning', 'pytorch_lightning'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
