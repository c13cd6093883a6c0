"""The command line as a user meets it: what it prints, how it ends, what it imports to answer."""

from __future__ import annotations

import atexit
import gc
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headtohead import cli
from headtohead.cli import COMMANDS, main


def h2h(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", "import sys; from headtohead.cli import main; sys.exit(main())", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["list"],
        ["train", "--help"],
        ["train", "model=transformer"],
        ["train", "optimizer.lr=abc"],
        ["train", "task=masked_lm"],
        ["inspect", "model/position=sinusoidal_2d"],
        ["bench", "bench.lengths=[0]"],
        ["train", "--cfg", "job"],
    ],
    ids=" ".join,
)
@pytest.mark.process
def test_answer_without_a_model_imports_no_torch(arguments: list[str]) -> None:
    program = (
        "import atexit, os, sys; from headtohead.cli import main; "
        "atexit.register(lambda: os._exit(bool({'torch', 'pytorch_lightning', 'wandb', 'numpy'} & set(sys.modules)))); "
        "main(sys.argv[1:])"
    )
    assert subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, check=False).returncode == 0


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name}" in shown for name in COMMANDS)


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS:
        with pytest.raises(SystemExit) as end:
            main([name, "--help"])
        assert end.value.code == 0
        assert f"usage: h2h {name}" in capsys.readouterr().out


def test_unknown_command_is_refused_with_a_guess(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trian"]) == 2
    assert "h2h trian is not a command: did you mean train?" in capsys.readouterr().err


def test_refusal_is_one_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "optimizer.lr=abc"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "error: optimizer.lr=abc is refused: it must be a number, such as 0.001\n"


@pytest.mark.process
def test_debug_variable_shows_the_traceback() -> None:
    shown = h2h("train", "optimizer.lr=abc", HEADTOHEAD_DEBUG="1")
    assert "Traceback" in shown.stderr and "ConfigurationError" in shown.stderr


def test_unknown_option_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--lr", "3"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
def test_an_empty_argument_is_refused_and_not_read_as_the_working_folder(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before, after = {"runs": ["archive"]}.get(command, []), {"export": ["--to", "onnx"]}.get(command, [])
    assert main([command, *before, "", *after]) == 2
    refusal = capsys.readouterr().err.splitlines()[-1]
    if command != "schema":  # takes none
        assert " is empty: is a variable of the shell not set?" in refusal


def test_commands_that_look_at_one_run_refuse_many(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", "-m", "seed=0,1"]) == 2
    assert "looks at one run, and --multirun makes many" in capsys.readouterr().err
    assert main(["train", "seed=0,1"]) == 2
    refusal = capsys.readouterr().err
    assert "write seed=[0,1] for a list, " in refusal and "or h2h train --multirun for one run each" in refusal
    assert main(["train", "--workers", "2"]) == 2
    assert "give --multirun too" in capsys.readouterr().err


def test_config_is_printed_as_yaml_that_composes_again(capsys: pytest.CaptureFixture[str]) -> None:
    import yaml

    assert main(["train", "--cfg", "job", "--resolve", "optimizer.lr=0.5", "seed=3"]) == 0
    config = yaml.safe_load(capsys.readouterr().out)
    assert config["optimizer"]["lr"] == 0.5 and config["seed"] == 3
    assert config["choices"]["model"] == "decoder_only"


def test_list_names_every_choice_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "model/mixer", "precision"]) == 0
    shown = capsys.readouterr().out
    assert "softmax_attention" in shown and "bf16-mixed" in shown and "https://arxiv.org" in shown


def test_list_of_a_branch_shows_all_groups_below(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "model/"]) == 0
    shown = capsys.readouterr().out
    assert "model/norm\n" in shown and "model/position\n" in shown


def test_list_as_json_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert "decoder_only" in listed["model"] and all(line for group in listed.values() for line in group.values())


def test_unknown_group_of_list_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "mixer"]) == 2
    assert "model/mixer" in capsys.readouterr().err


@pytest.mark.process
def test_train_help_shows_groups_fields_and_examples() -> None:
    shown = h2h("train", "--help").stdout
    for part in ("model/mixer", "softmax_attention", "seed=0", "resume_from", "h2h train model=encoder_only"):
        assert part in shown


@pytest.mark.slow
def test_user_choices_come_from_their_own_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "optimizer").mkdir()
    text = "# Mine.\n_target_: headtohead.training.optim.optimizers.sgd\n_partial_: true\nlr: 0.25\n"
    (tmp_path / "optimizer" / "mine.yaml").write_text(text)
    assert main(["train", "--cfg", "job", "--config-dir", str(tmp_path), "optimizer=mine"]) == 0
    assert "lr: 0.25" in capsys.readouterr().out
    assert main(["list", "optimizer", "--config-dir", str(tmp_path)]) == 0
    assert "Mine." in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("sign", ["", "+"])
def test_users_own_experiment_is_chosen_with_and_without_a_plus_and_overridden(
    sign: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import yaml

    (tmp_path / "experiment").mkdir()
    text = "# @package _global_\ndefaults:\n  - override /model/norm: rms_norm\nmodel:\n  d_model: 32\nseed: 7\n"
    (tmp_path / "experiment" / "mine.yaml").write_text(text)
    assert main(["train", "--config-dir", str(tmp_path), f"{sign}experiment=mine", "seed=8", "--cfg", "job"]) == 0
    config = yaml.safe_load(capsys.readouterr().out)
    assert (config["choices"]["model/norm"], config["model"]["d_model"], config["seed"]) == ("rms_norm", 32, 8)


@pytest.mark.process
def test_a_reader_that_goes_away_early_is_no_error() -> None:
    program = "import sys; from headtohead.cli import main; sys.exit(main(['list']))"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""


def test_compare_without_records_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(tmp_path)]) == 2
    assert "holds no record" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "nowhere")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_the_program_collects_garbage_rarely_and_a_notebook_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    before = gc.get_threshold()
    main(["--version"])
    assert gc.get_threshold() == before
    monkeypatch.setattr(cli, "is_own_process", cli.is_own_process)
    monkeypatch.setenv("GOMP_SPINCOUNT", "30000")
    monkeypatch.setattr(sys, "argv", ["h2h", "--version"])
    monkeypatch.setattr(atexit, "register", lambda call: call)
    try:
        main()
        assert gc.get_threshold()[0] >= 100_000
    finally:
        gc.set_threshold(*before)
