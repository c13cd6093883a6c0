"""The test at multiples of the training length: who can, who cannot and why; the test itself stays as it is."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from headtohead import api
from headtohead.architectures.architecture import InputSize
from headtohead.config.build import build_model, build_parts
from headtohead.records.metrics_file import multiple_of, stage_at
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.training.run import train
from headtohead.training.run_components import EvaluationSettings
from training.runs import parts

FEW = ["data.num_train=100", "data.num_validation=20", "data.num_test=30"]
SMALL = [
    "model.d_model=16", "model.num_layers=1", "model.num_heads=2", "data.batch_size=8", "trainer.accelerator=cpu",
    "trainer.max_steps=2", "trainer.validate_every=2", "trainer.progress_bar=false", "tracking=none", "probe=none",
]  # fmt: skip
COPY = ["data=copy", *FEW, "data.length=8"]
READS_ON = [
    *(f"model/position={name}" for name in ("none", "alibi", "rotary", "sinusoidal", "t5_bias", "shaw")),
    *(f"model/position={name}" for name in ("kerple", "fire", "xpos")),
    *(f"model/mixer={name}" for name in ("lstm", "gru", "mamba", "mamba2", "rwkv7", "hyena")),
    *(f"model/mixer={name}" for name in ("sliding_window", "linear_attention", "retention", "min_lstm", "s4d")),
]
STAGES = ["test_2x", "test_4x", "test_8x"]


@pytest.fixture(autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADTOHEAD_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def config(folder: Path, *overrides: str) -> dict[str, Any]:
    return api.compose("train", [*SMALL, f"output_dir={folder}", *overrides])


def trained(folder: Path, *overrides: str) -> RunRecord:
    record = api.train(config(folder, *overrides))
    assert record.status == "finished", record.reason
    return record


def mixed(change: str) -> list[str]:
    return [change] if change.startswith("model/position") else [change, "model/position=none"]


@pytest.mark.parametrize("change", READS_ON)
def test_what_has_no_weight_for_every_place_reads_longer_rows(change: str, tmp_path: Path) -> None:
    model = build_model(config(tmp_path, *COPY, *mixed(change)), device="meta")
    assert model.length_error(InputSize(length=10_000)) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        ([*COPY, "model/position=learned"], "Learned knows 16 positions, and rows of 32 tokens need more"),
        (
            [
                "data=dyck", "data.form=labelled", *FEW, "data.length=12", "model=encoder_only", "task=classification",
                "model/position=none", "model/mixer=linformer",
            ],
            "Linformer knows 14 positions, and rows of 26 tokens need more",
        ),
        (
            ["data=dyck", "data.form=labelled", *FEW, "data.length=12", "model=mlp", "task=classification"],
            "a perceptron has weights for 14 positions, and rows of 26 tokens need more",
        ),
        (
            [*COPY, "data.form=pairs", "model=encoder_decoder", "task=seq2seq", "model/position=learned"],
            "Learned knows 8 positions, and rows of 16 tokens need more",
        ),
        (["data=modular_addition", "data.modulus=13"], "its rows are as long as they are"),
    ],
)  # fmt: skip
def test_who_cannot_says_why_and_is_tested_all_the_same(overrides: list[str], reason: str, tmp_path: Path) -> None:
    small = [one for one in SMALL if not ("model=mlp" in overrides and "num_heads" in one)]
    record = api.train(api.compose("train", [*small, f"output_dir={tmp_path}", "evaluation=lengths", *overrides]))
    assert record.status == "finished" and record.metrics["test"]
    assert list(record.cannot) == STAGES and record.cannot["test_2x"].startswith(reason)
    assert set(record.metrics) == {"validation", "test"}


@pytest.mark.slow
def test_once_as_long_is_the_test_itself_and_longer_tests_change_nothing_of_it(tmp_path: Path) -> None:
    plain = trained(tmp_path, *COPY, "model/position=alibi", "trainer.num_samples=2")
    longer = trained(tmp_path, *COPY, "model/position=alibi", "trainer.num_samples=2", "evaluation=lengths")
    assert longer.metrics["test"] == plain.metrics["test"] and longer.comparability == plain.comparability
    assert list(longer.metrics) == ["validation", "test", *STAGES] and not longer.cannot
    assert longer.path is not None and plain.path is not None
    samples = [(record.path / "tables" / "test" / "samples.csv").read_text() for record in (plain, longer)]  # type: ignore[operator]
    assert samples[0] == samples[1]
    logged = RunFolder.open(longer.path).metrics()
    assert logged["test_4x/loss"].value == pytest.approx([longer.metrics["test_4x"]["loss"]])
    assert "test_1x/loss" not in logged and "test_2x/loss" not in RunFolder.open(plain.path).metrics()


@pytest.mark.slow
def test_a_longer_test_measures_what_the_selected_weights_make_of_longer_rows(tmp_path: Path) -> None:
    overrides = ["data=copy", *FEW, "data.length=6", "data.min_length=3", "model/mixer=lstm", "model/position=none"]
    record = trained(tmp_path, *overrides, "evaluation.lengths=[4]")
    assert record.path is not None
    run = api.load_run(record.path)
    made = build_parts({**run.config, "output_dir": str(tmp_path)})
    split = made.data.longer(4).split("test")
    total = count = 0.0
    with torch.no_grad():
        for row in range(len(split)):  # one by one: nothing is padded
            batch = made.task.view(split.batch(torch.tensor([row]).numpy()), seed=0, epoch=0)
            loss = made.task.loss(run.model, batch)
            total, count = total + float(loss.total), count + float(loss.count)
    assert record.metrics["test_4x"]["loss"] == pytest.approx(total / count, rel=1e-5)
    assert math.isfinite(total) and count > 30 * 12


def test_arms_are_tested_on_the_same_longer_rows(tmp_path: Path) -> None:
    hashes = {
        build_parts(config(tmp_path, *COPY, "seed=3", *mixed(change))).data.longer(2).spec().data_hash
        for change in READS_ON[:2]
    }
    assert len(hashes) == 1


@pytest.mark.slow
def test_data_of_ones_own_that_knows_nothing_of_lengths_is_tested_as_ever(tmp_path: Path) -> None:
    record = train(parts(tmp_path, evaluation=EvaluationSettings(lengths=(1, 2))))
    assert record.status == "finished" and list(record.cannot) == ["test_2x"]


def test_stages_and_multiples_name_each_other() -> None:
    assert [stage_at(multiple) for multiple in (1, 2, 10)] == ["test", "test_2x", "test_10x"]
    assert [multiple_of(stage) for stage in ("test", "test_2x", "test_10x", "validation", "test_1x", "test_0x")] == [
        1, 2, 10, None, None, None,
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("task", ["seq2seq_at_once", "seq2seq_one_row"])
def test_a_target_that_is_written_in_one_row_may_be_longer_too(task: str, tmp_path: Path) -> None:
    """The model reads as many masks as the longest target of the longer rows has, not that of training."""
    family = {"seq2seq_at_once": "encoder_only", "seq2seq_one_row": "decoder_only"}[task]
    longer = ["data=sort", "data.form=pairs", "evaluation.lengths=[1,2]", "model/position=alibi"]
    record = api.train(api.compose("train", [f"model={family}", f"task={task}", *longer, *quick(tmp_path)]))
    assert record.status == "finished" and not record.cannot
    assert math.isfinite(record.metrics["test_2x"]["loss"])


def quick(folder: Path) -> list[str]:
    sizes = ["data.num_train=16", "data.num_validation=4", "data.num_test=4", "data.batch_size=4", "model.d_model=16"]
    steps = ["trainer.max_steps=1", "trainer.validate_every=1", "trainer.num_samples=2", "trainer.accelerator=cpu"]
    return [*sizes, *steps, "model.num_layers=1", "tracking=none", "probe=none", f"output_dir={folder}"]
