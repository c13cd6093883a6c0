"""The command that measures a finished run again: table, JSON, files, picture, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headtohead import api
from headtohead.cli import main

TINY = [
    "name=mine", "group=measured", "model.d_model=8", "model.num_layers=1", "data.num_train=60",
    "data.num_validation=8", "data.num_test=8", "data.batch_size=4", "data.context_length=8", "data.tokenizer=char",
    "data.packing=stream", "trainer.accelerator=cpu", "trainer.validate_every=2", "trainer.max_steps=2",
    "trainer.progress_bar=false", "tracking=none", "probe=none",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluate")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(folder / "cache"))
        record = api.train(api.compose("train", [*TINY, f"output_dir={folder}/outputs"]))
    assert record.path is not None
    return record.path


@pytest.fixture(autouse=True)
def cache(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(run.parents[2] / "cache"))


@pytest.mark.slow
def test_one_result_stands_beside_chance_and_the_record(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run)]) == 0
    shown = capsys.readouterr()
    assert all(word in shown.out for word in ("loss", "bits_per_byte", "chance", "as recorded", "in sight on average"))
    recorded = api.load_run(run).record.metrics["test"]["loss"]
    assert shown.out.count(f"{recorded:.4f}") == 2
    assert "evaluations/test.json" in shown.err


@pytest.mark.slow
def test_another_precision_is_told(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(run), "precision=bf16-mixed"]) == 0
    assert "in bf16-mixed" in capsys.readouterr().out.replace("\n", " ")


def test_json_is_what_is_on_disk(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--json", "--stride", "4", str(run), "model/position=rotary_ntk"]) == 0
    output = capsys.readouterr()
    (shown,) = json.loads(output.out)
    assert json.loads(Path(output.err.strip()).read_text()) == shown
    assert (shown["stride"], shown["points"][0]["length"]) == (4, 8)
    assert shown["points"][0]["position"]["_target_"].endswith("RotaryNtk")


@pytest.mark.slow
def test_several_runs_over_lengths_make_one_table_and_one_picture(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "lengths.png"
    assert main(["evaluate", str(run), str(run), "--lengths", "4,8,16", "--places", "--plot", str(picture)]) == 0
    shown = capsys.readouterr()
    assert "*8" in shown.out and shown.out.count("mine") == 2
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "no run is named"),
        (["nowhere"], "holds no record.json"),
        (["RUN", "--lengths", "4,b"], "not a list of whole numbers"),
        (["RUN", "--length", "4", "--lengths", "4,8"], "not allowed with"),
        (["RUN", "--plot", "a.png"], "one number is not a curve"),
        (["RUN", "--lm-eval-tasks", "mine"], "name some, --lm-eval TASK,TASK"),
        (["RUN", "--lm-eval", "mine", "--split", "validation"], "leave out --split"),
        (["RUN", "seed=3"], "seed cannot be changed"),
        (["RUN", "precision=8-bit"], "precision=8-bit does not exist"),
    ],
    ids=str,
)
def test_refusal_is_one_line(
    run: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert main(["evaluate", *(str(run) if text == "RUN" else text for text in arguments)]) == 2
    shown = capsys.readouterr()
    assert sentence in shown.err and shown.err.count("\n") == 1 and shown.out == ""
