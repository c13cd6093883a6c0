"""Commands that train: from a command to a record, with a user's own parts, with an interruption."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headtohead.cli import main
from waiting import PATIENCE, until

TINY = [
    "model.d_model=8",
    "model.num_layers=1",
    "data.num_train=40",
    "data.num_validation=4",
    "data.num_test=4",
    "data.batch_size=4",
    "data.context_length=8",
    "data.tokenizer=char",
    "trainer.accelerator=cpu",
    "trainer.validate_every=2",
    "trainer.log_every=1",
    "tracking=none",
]
PROGRAM = [sys.executable, "-c", "import sys; from headtohead.cli import main; sys.exit(main())"]
MIXER = """
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention

class Mine(SoftmaxAttention):
    def __init__(self, d_model: int, *, num_heads: int, causal: bool, dropout: float = 0.0, shine: float = 1.0) -> None:
        heads = AttentionHeads(scale=shine)
        super().__init__(d_model, num_heads=num_heads, causal=causal, dropout=dropout, heads=heads)
"""


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_train_ends_with_the_table_and_where_the_record_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *TINY, "trainer.max_steps=2"]) == 0
    shown = capsys.readouterr()
    record = next(Path("outputs/default").glob("*/record.json"))
    assert f"record: {record}" in shown.err
    assert "h2h compare outputs/default" in shown.err
    assert "finished" in shown.out and "loss" in shown.out
    assert all(word in shown.out for word in ("metric", "baseline", "perplexity", "bits per byte"))
    stored = json.loads(record.read_text())
    assert stored["status"] == "finished" and stored["config"]["model"]["vocab_size"] > 0
    assert stored["costs"]["totals"]["parameters"] > 0
    names = stored["metrics"]["test"].keys()
    assert stored["baselines"].keys() == names | {f"validation/{name}" for name in names}, "on either split"
    assert main(["compare", "outputs"]) == 0
    assert stored["name"][:20] in capsys.readouterr().out
    assert main(["compare", "outputs", "--metric", "lss"]) == 2
    assert "no record holds the metric lss: did you mean loss?" in capsys.readouterr().err


def test_data_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "data=text", "data.path=nowhere.txt", "tracking=none"]) == 2
    shown = capsys.readouterr().err
    assert "nowhere.txt" in shown and shown.count("\n") == 1 and "HEADTOHEAD_DEBUG" not in shown


@pytest.mark.slow
def test_users_own_mixer_is_used_and_its_fields_are_checked(capsys: pytest.CaptureFixture[str]) -> None:
    """A module of the folder that one stands in, its signature read like any other."""
    Path("my_parts.py").write_text(MIXER)
    choice = Path("conf/model/mixer/mine.yaml")
    choice.parent.mkdir(parents=True)
    choice.write_text("# Mine.\n_target_: my_parts.Mine\n_partial_: true\n")
    mine = ["--config-dir", "conf", "model/mixer=mine"]
    assert main(["train", *mine, *TINY, "trainer.max_steps=1", "model.mixer.shine=2"]) == 0
    capsys.readouterr()
    assert main(["train", *mine, *TINY, "model.mixer.shin=2"]) == 2
    assert "model.mixer.shin is not a field of model/mixer=mine: did you mean model.mixer.shine?" in (
        capsys.readouterr().err
    )


def test_inspect_says_parameters_and_shapes_without_training(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", *TINY, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["family"] == "decoder_only"
    assert shown["ledger"]["totals"]["parameters"] > 0
    assert shown["stages"][0]["path"] == "inputs"
    assert not Path("outputs").exists()


@pytest.mark.slow
def test_gpt2_small_counts_as_published(capsys: pytest.CaptureFixture[str]) -> None:
    size = ["model/size=gpt2_small", "model.vocab_size=50257", "model.max_length=1024", "model/position=learned"]
    small_data = [override for override in TINY if not override.startswith("model.")]
    assert main(["inspect", *small_data, *size]) == 0
    assert "124,439,808" in capsys.readouterr().out


@pytest.mark.process
def test_ctrl_c_ends_with_130_and_the_way_to_go_on() -> None:
    command = [*PROGRAM, "train", *TINY, "trainer.max_steps=100000", "trainer.progress_bar=false"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ) as run:
        _wait_for_steps(run)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 130, err
    assert "Traceback" not in err
    assert "h2h train resume_from=outputs/default/" in err and "interrupted" in out


def _wait_for_steps(run: subprocess.Popen) -> None:
    rows = "default/*/metrics.csv"
    until(lambda: run.poll() is not None or any(file.stat().st_size > 200 for file in Path("outputs").glob(rows)))


@pytest.mark.process
def test_ctrl_c_before_training_ends_with_130_and_one_line() -> None:
    program = (
        "import sys, headtohead.cli.listing as listing; from headtohead.cli import main\n"
        "def run(arguments): raise KeyboardInterrupt\n"
        "listing.run = run\n"
        "sys.exit(main(['list']))"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (130, "error: interrupted\n")
