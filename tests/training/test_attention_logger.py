"""Attention maps beside training: there when wanted, without a trace in what is trained, at no risk to the run."""

from __future__ import annotations

import csv
import logging
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from headtohead.components.norms import BatchNorm
from headtohead.interpretability.map_archive import read_maps
from headtohead.interpretability.recorded_attention import attention_maps
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.training import run
from headtohead.training.callbacks import attention_logger
from headtohead.training.checkpoints import LAST, load
from headtohead.training.loop.precision import Precision
from headtohead.training.loop.throughput import ThroughputMeter
from headtohead.training.run import train
from headtohead.training.run_components import ProbeSettings, RunComponents
from headtohead.wandb_client.connection import TrackingSettings
from silent_mixer import RunningMean
from strict_probe import PROBE, refuse_warnings
from training.programs import records_of
from training.runs import LENGTH, TinyData, curve, make_model, parts

OFF = ProbeSettings(at_end=False)
OFTEN = ProbeSettings(every=1, samples=3)


def attention_of(record: RunRecord) -> Path:
    assert record.path is not None
    return RunFolder.open(record.path).attention


def picture(file: Path) -> np.ndarray:
    with Image.open(file) as opened:
        return np.asarray(opened.convert("RGB"))


def last_state(record: RunRecord) -> dict[str, torch.Tensor]:
    assert record.path is not None
    return load(record.path / "checkpoints" / LAST)["state_dict"]


@pytest.mark.slow
def test_the_end_of_a_run_leaves_a_picture_and_the_numbers_of_every_layer(tmp_path: Path) -> None:
    record = train(parts(tmp_path, data=TinyData(ragged=False)))
    assert [folder.name for folder in attention_of(record).iterdir()] == ["step_000012"]
    files = {file.name for file in (attention_of(record) / "step_000012").iterdir()}
    layers = ("stack.0.mixer", "stack.1.mixer")
    assert files == {f"{layer}.{kind}" for layer in layers for kind in ("png", "npz")} | {"statistics.csv"}
    pixels = picture(attention_of(record) / "step_000012" / "stack.0.mixer.png")
    assert pixels.max() > 200 and len(np.unique(pixels.reshape(-1, 3), axis=0)) > 30
    archive = read_maps(attention_of(record) / "step_000012" / "stack.0.mixer.npz")
    assert archive.maps.weights.shape == (2, 2, LENGTH, LENGTH) and archive.maps.causal
    assert archive.queries is not None and set(archive.queries[0]) <= {str(number) for number in range(29)}


@pytest.mark.slow
def test_maps_are_drawn_as_often_as_asked_and_once_at_the_end(tmp_path: Path) -> None:
    def steps(**probe: Any) -> list[str]:
        record = train(parts(tmp_path, probe=ProbeSettings(**probe)))
        folder = attention_of(record)
        return sorted(step.name for step in folder.iterdir()) if folder.exists() else []

    assert steps(every=4) == ["step_000004", "step_000008", "step_000012"]
    assert steps(every=5, at_end=False) == ["step_000005", "step_000010"]


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"norm": BatchNorm}], ids=["dropout", "batch_norm"])
def test_training_is_bit_equal_with_the_probe_on_and_off(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Every step of a model with dropout, its validations, its last weights, its optimizer and its statistics."""
    model = partial(make_model, dropout=0.3, **changes)
    on, off = (train(parts(tmp_path, seed=4, make_model=model, probe=probe)) for probe in (OFTEN, OFF))
    assert len(list(attention_of(on).iterdir())) == 12 and not attention_of(off).exists()
    for name in ("train/loss", "validation/loss", "validation/token_accuracy", "test/loss", "gradient_norm/embedding"):
        assert curve(on.path, name) == curve(off.path, name)
    with_probe, without = last_state(on), last_state(off)
    assert with_probe.keys() == without.keys()
    assert all(torch.equal(with_probe[name], without[name]) for name in without)
    moments = [load(record.path / "checkpoints" / LAST)["optimizer_states"][0]["state"] for record in (on, off)]
    for position, state in moments[0].items():
        assert torch.equal(state["exp_avg_sq"], moments[1][position]["exp_avg_sq"])


@pytest.mark.slow
def test_averaged_weights_are_bit_equal_with_the_probe_on_and_off(tmp_path: Path) -> None:
    on, off = (train(parts(tmp_path, probe=probe, weight_averaging=0.9)) for probe in (OFTEN, OFF))
    assert curve(on.path) == curve(off.path)
    assert on.metrics == off.metrics


@pytest.mark.slow
def test_maps_are_those_of_the_weights_that_are_evaluated(tmp_path: Path) -> None:
    """The maps are of the last weights, or of their average if one is maintained."""
    for averaging in (None, 0.9):
        whole = parts(tmp_path, weight_averaging=averaging, probe=ProbeSettings(raw=True, samples=2))
        record = train(whole)
        assert record.path is not None
        checkpoint = load(record.path / "checkpoints" / LAST)
        model = make_model()
        model.load_state_dict({name.removeprefix("model."): t for name, t in checkpoint["state_dict"].items()})
        if averaging is not None:
            with torch.no_grad():
                for parameter, average in zip(model.parameters(), checkpoint["average"], strict=True):
                    parameter.copy_(average)
        batch = whole.task.view(whole.data.split("validation").batch(np.arange(2)), seed=0, epoch=0)
        for expected in attention_maps(model, batch.inputs()):
            drawn = read_maps(attention_of(record) / "step_000012" / f"{expected.name}.npz").maps
            assert torch.allclose(drawn.weights, expected.weights, rtol=1e-3, atol=1e-6)


@pytest.mark.slow
def test_the_probed_samples_are_the_same_whatever_the_seed(tmp_path: Path) -> None:
    first, second = (train(parts(tmp_path, seed=seed, max_steps=1)) for seed in (0, 1))
    labels = [read_maps(attention_of(run) / "step_000001" / "stack.0.mixer.npz").queries for run in (first, second)]
    assert labels[0] == labels[1]
    assert last_state(first)["model.embedding.weight"].ne(last_state(second)["model.embedding.weight"]).any()


@pytest.mark.slow
def test_samples_length_labels_and_archives_are_as_asked(tmp_path: Path) -> None:
    small = train(parts(tmp_path, max_steps=1, probe=ProbeSettings(samples=1000, max_length=5)))
    maps = read_maps(attention_of(small) / "step_000001" / "stack.1.mixer.npz").maps
    assert maps.weights.shape == (10, 2, 5, 5), "no more samples than the validation split has"
    bare = train(parts(tmp_path, max_steps=1, probe=ProbeSettings(samples=1, max_length=5, labels=False, raw=False)))
    assert not list(attention_of(bare).rglob("*.npz"))
    pictures = [picture(attention_of(run) / "step_000001" / "stack.1.mixer.png") for run in (small, bare)]
    assert pictures[0].shape != pictures[1].shape


def test_causal_maps_can_be_drawn_without_their_mask_too(tmp_path: Path) -> None:
    record = train(parts(tmp_path, max_steps=1, probe=ProbeSettings(without_mask=True)))
    folder = attention_of(record) / "step_000001"
    masked, free = (read_maps(folder / f"stack.0.mixer{end}.npz").maps for end in ("", ".without_mask"))
    assert masked.causal and (masked.weights.triu(1) == 0).all()
    assert not free.causal and (free.weights.triu(1) > 0).any()


@pytest.mark.slow
def test_every_head_has_its_entropy_and_distance_among_the_metrics(tmp_path: Path) -> None:
    record = train(parts(tmp_path, probe=ProbeSettings(every=5)))
    assert record.path is not None
    curves = RunFolder.open(record.path).metrics()
    result = {name for name in curves if name.startswith("attention")}
    assert result == {
        f"attention_{what}/stack.{layer}.mixer/head_{head}"
        for what in ("entropy", "distance")
        for layer in range(2)
        for head in range(2)
    }
    assert curves["attention_entropy/stack.0.mixer/head_1"].step == [5, 10, 12]
    with (attention_of(record) / "step_000010" / "statistics.csv").open(newline="") as file:
        rows = {(row["map"], row["head"]): row for row in csv.DictReader(file)}
    logged = curves["attention_entropy/stack.1.mixer/head_0"].value[1]
    assert float(rows["stack.1.mixer", "0"]["entropy"]) == pytest.approx(logged, rel=1e-5)
    assert 0 < logged <= math.log(12)


@pytest.mark.slow
def test_the_time_of_a_probe_is_not_the_time_of_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every probe advances the clock, so that a busy machine is not a slow probe."""
    probes: list[float] = []

    def put_forward(*_: Any, **__: Any) -> list[Any]:
        probes.append(3600.0)
        return []

    monkeypatch.setattr(
        run, "ThroughputMeter", partial(ThroughputMeter, clock=lambda: time.perf_counter() + sum(probes))
    )
    monkeypatch.setattr(attention_logger, "all_maps", put_forward)
    slow = train(parts(tmp_path, probe=ProbeSettings(every=2)))
    assert probes and 0 < slow.progress.seconds < 3600


@pytest.mark.slow
def test_a_model_without_attention_is_trained_as_ever_and_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "headtohead"):
        settings = replace(OFTEN, receptive_fields="never")
        record = train(parts(tmp_path, make_model=partial(make_model, mixer=RunningMean), probe=settings))
    assert record.status == "finished"
    assert not attention_of(record).exists()
    assert caplog.text.count("no part of this model has attention maps") == 1


@pytest.mark.slow
def test_a_mixer_without_attention_shows_what_its_outputs_depend_on(tmp_path: Path) -> None:
    record = train(parts(tmp_path, make_model=partial(make_model, mixer=RunningMean), probe=OFTEN))
    result = sorted(path.name for path in attention_of(record).glob("*/*.npz"))
    assert set(result) == {f"stack.{layer}.mixer.receptive_field.npz" for layer in (0, 1)}


@pytest.fixture
def as_for_users() -> Iterator[None]:
    """Suspend the strictness of the tests."""
    PROBE.removeFilter(refuse_warnings)
    yield
    PROBE.addFilter(refuse_warnings)


@pytest.mark.slow
@pytest.mark.usefixtures("as_for_users")
def test_a_probe_that_fails_is_told_of_once_and_costs_the_run_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no room\nleft")

    monkeypatch.setattr(attention_logger, "montage", fail)
    with caplog.at_level(logging.WARNING, "headtohead"):
        record = train(parts(tmp_path, probe=OFTEN))
    warnings = [entry.getMessage() for entry in caplog.records if entry.name == attention_logger.__name__]
    assert warnings == [
        "the probe failed at step 1 (OSError: no room); the run continues without attention maps",
    ]
    assert record.status == "finished"
    monkeypatch.undo()
    assert curve(record.path) == curve(train(parts(tmp_path, probe=OFF)).path)


def test_a_probe_that_fails_fails_the_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_logger, "montage", None)
    with pytest.raises(AssertionError, match="the probe failed at step 1"):
        train(parts(tmp_path, probe=OFTEN))


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true"])
def test_half_precision_is_probed(tmp_path: Path, precision: Any) -> None:
    record = train(parts(tmp_path, max_steps=2, precision=Precision(precision)))
    maps = read_maps(attention_of(record) / "step_000002" / "stack.0.mixer.npz").maps
    assert torch.allclose(maps.weights.sum(-1), maps.allowed.any(-1)[:, None].float(), atol=5e-3)


def with_wandb(whole: RunComponents) -> RunComponents:
    return replace(whole, tracking=TrackingSettings(mode="offline", system_metrics=False))


@pytest.mark.process
def test_wandb_gets_the_pictures_and_they_are_not_black(tmp_path: Path) -> None:
    record = train(with_wandb(parts(tmp_path, max_steps=4, probe=ProbeSettings(every=2))))
    assert record.path is not None and record.wandb.directory is not None
    sent = sorted((record.path / record.wandb.directory).rglob("attention/*.png"))
    assert [file.name.partition(".mixer")[0] for file in sent] == ["stack.0"] * 2 + ["stack.1"] * 2
    drawn = {picture(file).tobytes() for file in attention_of(record).rglob("*.png")}
    for file in sent:
        pixels = picture(file)
        assert pixels.max() > 200 and len(np.unique(pixels.reshape(-1, 3), axis=0)) > 30
        assert pixels.tobytes() in drawn


@pytest.mark.slow
@pytest.mark.process
def test_two_processes_draw_once_and_train_as_without(tmp_path: Path) -> None:
    program = """
from headtohead.training.loop import compiled_model
from headtohead.training.run_components import ProbeSettings
compiled_model.BACKEND = "aot_eager"  # graphs without machine code, which is a minute's work
for probe in (ProbeSettings(every=4), ProbeSettings(at_end=False)):
    tell(train(parts(folder, make_model=still, strategy="ddp", devices=2, probe=probe)))
"""
    on, off = records_of(program, tmp_path)
    assert curve(on.path) == curve(off.path) and on.metrics == off.metrics
    assert sorted(step.name for step in attention_of(on).iterdir()) == ["step_000004", "step_000008", "step_000012"]
    assert len(RunFolder.open(on.path).metrics()["attention_entropy/stack.0.mixer/head_0"].step) == 3


@pytest.mark.slow
@pytest.mark.process
def test_a_model_spread_over_two_processes_shows_the_maps_of_one(tmp_path: Path) -> None:
    """Weights sharded, and layers divided so that each process has one of the two heads."""
    program = """
for parallel in (1, 2):
    tell(train(parts(folder, make_model=still, strategy="model_parallel", devices=2, tensor_parallel=parallel)))
"""
    alone = train(parts(tmp_path, make_model=partial(make_model, dropout=0.0)))
    for record in records_of(program, tmp_path):
        for name in ("stack.0.mixer", "stack.1.mixer"):
            one, two = (read_maps(attention_of(run) / "step_000012" / f"{name}.npz").maps for run in (alone, record))
            assert torch.allclose(one.weights, two.weights, atol=1e-3)


@pytest.mark.slow
@pytest.mark.process
def test_a_compiled_run_is_probed_and_trained_as_without(tmp_path: Path) -> None:
    program = """
from headtohead.training.loop import compiled_model
from headtohead.training.run_components import ProbeSettings
compiled_model.BACKEND = "aot_eager"  # graphs without machine code, which is a minute's work
for probe in (ProbeSettings(every=1), ProbeSettings(at_end=False)):
    tell(train(parts(folder, make_model=still, compile=True, max_steps=4, probe=probe)))
"""
    on, off = records_of(program, tmp_path)
    assert curve(on.path) == curve(off.path)
    assert len(list(attention_of(on).iterdir())) == 4
