"""Whole runs on a real accelerator (`make test-gpu`); most of them run on the processor, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import headtohead as h2h
from headtohead.cli import main
from headtohead.config.compose.composition import compose_checked
from headtohead.estimates.layouts import Layout
from headtohead.estimates.run_planner import RunPlanner
from headtohead.estimates.step_times import TimedModel
from headtohead.records.record import RunRecord
from headtohead.training.checkpoints import load
from training.runs import curve

TINY = [
    "model.d_model=32", "model.num_layers=2", "model.num_heads=2", "data.batch_size=8", "trainer.max_steps=4",
    "trainer.validate_every=2", "trainer.log_every=1", "trainer.threads=1", "trainer.progress_bar=false",
    "trainer.validation_batches=2", "tracking=none",
]  # fmt: skip
TEXT = ["data.num_train=64", "data.num_validation=8", "data.num_test=8"]
GRAMMAR = ["data.context_length=32", "data.tokenizer=char", *TEXT]
MIXED = [
    "data=mix", "data.weights.first=3", "model.dropout=0.1",
    *(f"data.sources.{name}.{word.removeprefix('data.')}" for name in ("first", "second") for word in GRAMMAR),
]  # fmt: skip
FAMILIES = {
    "decoder": GRAMMAR,
    "linear": ["model/mixer=mamba2", "model/position=none", *GRAMMAR],
    "recurrent": ["model=recurrent", *GRAMMAR],
    "masked": ["model=encoder_only", "task=masked_lm", *GRAMMAR],
    "translator": ["model=encoder_decoder", "task=seq2seq", "data=number_words", *TEXT],
    "images": ["model=vision_transformer", "task=image_classification", "data=digits"],
    "convolutions": ["model=cnn", "task=image_classification", "data=digits"],
}
OF_GPUS = ("32-true", "64-true", "bf16-mixed", "16-mixed", "bf16-true")
CASES = [
    pytest.param("cpu", "decoder", "bf16-mixed", marks=pytest.mark.slow),
    *(pytest.param("gpu", family, precision, marks=pytest.mark.gpu) for family in FAMILIES for precision in OF_GPUS),
]
ON_BOTH = [pytest.param("cpu", marks=pytest.mark.slow), pytest.param("gpu", marks=pytest.mark.gpu)]


def trained(folder: Path, device: str, *overrides: str) -> RunRecord:
    sizes = [word for word in TINY if "model=cnn" not in overrides or not word.startswith("model.")]
    words = [*sizes, *overrides, f"trainer.accelerator={device}", f"output_dir={folder}"]
    return h2h.train(h2h.compose("train", words))


def weights_of(record: RunRecord) -> dict[str, torch.Tensor]:
    assert record.path is not None
    state: dict[str, torch.Tensor] = load(record.path / "checkpoints" / "last.ckpt")["state_dict"]
    return state


@pytest.mark.parametrize(("device", "family", "precision"), CASES)
def test_every_family_learns_in_every_precision_as_on_the_processor(
    tmp_path: Path, device: str, family: str, precision: str
) -> None:
    record = trained(tmp_path, device, *FAMILIES[family], f"precision={precision}")
    reference = trained(tmp_path, "cpu", *FAMILIES[family])
    assert record.status == "finished" and (device == "cpu" or record.environment.device["name"] != "cpu")
    near = 1e-3 if precision in ("32-true", "64-true") else 0.1
    assert curve(record.path) == pytest.approx(curve(reference.path), rel=near)
    assert all(torch.isfinite(weight).all() for weight in weights_of(record).values() if weight.is_floating_point())


@pytest.mark.gpu
def test_losses_in_float16_are_scaled_and_an_overflow_costs_a_step(tmp_path: Path) -> None:
    record = trained(tmp_path, "gpu", *GRAMMAR, "precision=16-mixed", "trainer.max_steps=8")
    assert record.path is not None
    scaler = load(record.path / "checkpoints" / "last.ckpt")["MixedPrecision"]
    assert scaler["scale"] > 1, "gradients below 6e-8 would be zero"


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's compiler calls what torch deprecates
@pytest.mark.parametrize("family", FAMILIES)
def test_a_compiled_run_has_the_curve_of_an_eager_one(tmp_path: Path, family: str) -> None:
    compiled, eager = (
        trained(tmp_path, "gpu", *FAMILIES[family], f"trainer.compile={flag}") for flag in ("true", "false")
    )
    assert curve(compiled.path) == pytest.approx(curve(eager.path), rel=1e-3)


@pytest.mark.parametrize("device", ON_BOTH)
@pytest.mark.parametrize("data", ["grammar_lm", "mix"])
def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, device: str, data: str) -> None:
    words = [*GRAMMAR, "model.dropout=0.1"] if data == "grammar_lm" else MIXED
    words = [*words, "schedule=constant"]  # which does not know its end
    whole = trained(tmp_path, device, *words)
    half = trained(tmp_path, device, *words, "trainer.max_steps=2")
    resumed = trained(tmp_path, device, *words, f"resume_from={half.path}")
    ours, theirs = weights_of(resumed), weights_of(whole)
    assert resumed.timing.starts == 2 and ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


@pytest.mark.gpu
@pytest.mark.parametrize("recomputed", ["none", "full"])
def test_the_memory_of_a_step_is_what_the_plan_says(recomputed: str) -> None:
    words = [*TINY, *GRAMMAR, "model.d_model=512", "data.batch_size=32", f"checkpointing={recomputed}"]
    config = compose_checked("train", [*words, "trainer.accelerator=gpu"])
    step = TimedModel(config)
    step.train(1)
    torch.cuda.reset_peak_memory_stats()
    step.train(1)
    planned = RunPlanner(config, "cuda").layout_costs.memory(Layout(recomputed=recomputed), 32)  # type: ignore[arg-type]
    assert planned.total == pytest.approx(torch.cuda.max_memory_allocated(), rel=0.1)


@pytest.mark.parametrize("device", ON_BOTH)
def test_a_record_tells_peak_memory_and_utilisation(tmp_path: Path, device: str) -> None:
    record = trained(tmp_path, device, *GRAMMAR, "trainer.max_steps=30", "trainer.validate_every=30")
    rates: dict[str, Any] = record.throughput
    assert rates["peak_memory_bytes"] > 2**20 and rates["tokens_per_second"] > 0
    assert (rates["mfu"] is None) if device == "cpu" else 0 < rates["mfu"] < 1


@pytest.mark.process
@pytest.mark.parametrize("device", ON_BOTH)
def test_two_runs_share_one_device(tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if device == "gpu":
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    words = [*TINY, *GRAMMAR, f"trainer.accelerator={device}", f"output_dir={tmp_path}", "seed=0,1"]
    assert main(["train", "-m", *words, "launcher.runs_per_device=2"]) == 0
    assert len(list((tmp_path / ".multirun" / "logs").glob("worker-*"))) == 2
    assert [record.status for record in h2h.runs([tmp_path])] == ["finished"] * 2


@pytest.mark.gpu
@pytest.mark.process
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are not two CUDA devices")
@pytest.mark.parametrize("trainer", ["ddp", "fsdp", "tensor_parallel"])
def test_two_devices_have_the_curve_of_one(tmp_path: Path, trainer: str) -> None:
    one = trained(tmp_path, "gpu", *GRAMMAR, "model.dropout=0")
    two = ["trainer.devices=2", f"trainer={trainer}", "model.dropout=0", f"output_dir={tmp_path}"]
    assert main(["train", *TINY, *GRAMMAR, *two, "trainer.accelerator=gpu", "name=two"]) == 0
    (spread,) = (record for record in h2h.runs([tmp_path]) if record.name == "two")
    assert curve(spread.path) == pytest.approx(curve(one.path), rel=1e-4)
