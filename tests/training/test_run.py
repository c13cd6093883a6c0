"""A run leaves its files behind, and nothing but rounding depends on how it was computed."""

from __future__ import annotations

import logging
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pytorch_lightning import Trainer
from pytorch_lightning.plugins import MixedPrecision

from headtohead.components.checkpointing import Checkpointing
from headtohead.components.mixers.attention.softmax_attention import AttentionHeads, SoftmaxAttention
from headtohead.components.mixers.linear.linear_attention import Performer
from headtohead.components.mixers.recurrent.s4d import S4d
from headtohead.components.norms import BatchNorm
from headtohead.components.positions.relative import Alibi
from headtohead.records.run_folder import RunFolder
from headtohead.training.checkpoints import load, load_best
from headtohead.training.checks import check_model
from headtohead.training.loop.precision import Precision
from headtohead.training.loop.seeds import seeds_of
from headtohead.training.optim.optimizers import adamw
from headtohead.training.optim.schedules import constant
from headtohead.training.parallel.sharding import check_tensor_parallel_plans
from headtohead.training.run import train
from headtohead.training.run_components import RunInfo, TrainerSettings
from training.programs import records_of
from training.runs import NUM_ROWS, TinyData, curve, losses, make_model, parts

still = partial(make_model, dropout=0.0)
"""A model without dropout, whose losses do not depend on how a batch is split."""


@pytest.mark.slow
def test_a_finished_run_leaves_a_complete_record(tmp_path: Path) -> None:
    record = train(parts(tmp_path, seed=3))
    assert record.path is not None
    assert record == RunFolder.open(record.path).read_record()
    assert record.status == "finished" and record.reason is None
    assert record.seed == 3 and record.seeds == seeds_of(3)
    assert record.progress.step == 12 and record.progress.epoch == 2
    assert record.progress.flops > 0 and record.progress.seconds > 0
    assert set(record.metrics["validation"]) == set(record.metrics["test"]) >= {"loss", "token_accuracy"}
    assert record.scales["loss"].chance == pytest.approx(math.log(29))
    assert record.baselines["loss"] <= math.log(29)
    assert record.comparability.precision == "32-true" and record.comparability.data == "tiny"
    assert record.data["train_rows"] == 40, "all of them"
    assert record.throughput["tokens_per_second"] > 0 and record.throughput["peak_memory_bytes"] > 1e6
    assert record.throughput["mfu"] is None
    assert record.timing.finished is not None
    assert record.environment.device["type"] == "cpu"
    assert set(record.environment.device["kernels"].values()) == {"fused attention"}


@pytest.mark.slow
@pytest.mark.parametrize("steps", [4, 5, 6, 10])
def test_epochs_are_passes_that_are_complete(steps: int, tmp_path: Path) -> None:
    record = train(parts(tmp_path, max_steps=steps, validate_every=steps))
    assert record.path is not None and record.progress.epoch == steps * 8 // NUM_ROWS["train"]
    logged = RunFolder.open(record.path).metrics()["train/loss"]
    assert logged.epoch == [step * 8 // NUM_ROWS["train"] for step in logged.step]


@pytest.mark.slow
def test_a_run_that_stops_by_patience_has_logged_all_its_steps_and_how_fast_they_were(tmp_path: Path) -> None:
    early = train(parts(tmp_path, max_steps=10, log_every=50, validate_every=3, patience=1, min_delta=100.0))
    assert early.status == "finished" and early.progress.step == 6 and early.path is not None
    logged = RunFolder.open(early.path).metrics()
    assert logged["train/loss"].step == [1, 6] and early.throughput["tokens_per_second"] > 0
    assert logged["train/loss"].value[1] == pytest.approx(np.mean(losses(tmp_path, max_steps=10)[1:6]))
    assert logged["gradient_norm/embedding"].step == [1], "a norm is that of one step"


@pytest.mark.slow
def test_training_lowers_the_loss(tmp_path: Path) -> None:
    first, *_, last = losses(tmp_path, max_steps=60, validate_every=60)
    assert last < first - 0.5


@pytest.mark.slow
def test_the_same_seed_gives_bit_equal_losses_and_another_seed_does_not(tmp_path: Path) -> None:
    first = losses(tmp_path)
    torch.rand(7)  # what the global generator did before must not matter
    assert losses(tmp_path) == first
    assert losses(tmp_path, seed=1) != first


def test_initialisation_order_and_dropout_each_have_a_seed_of_their_own() -> None:
    seeds = [seeds_of(seed) for seed in range(20)]
    numbers = {number for s in seeds for number in (s.initialisation, s.data_order, s.dropout)}
    assert len(numbers) == 60


@pytest.mark.slow
def test_how_often_is_logged_and_validated_changes_no_loss(tmp_path: Path) -> None:
    every_step = losses(tmp_path, max_steps=12)
    record = train(parts(tmp_path, log_every=4, validate_every=3))
    means = [sum(every_step[start:end]) / (end - start) for start, end in ((0, 1), (1, 4), (4, 8), (8, 12))]
    assert curve(record.path) == pytest.approx(means, rel=1e-12)


@pytest.mark.slow
def test_accumulation_changes_nothing_but_rounding(tmp_path: Path) -> None:
    """Also where the parts are of different sizes."""
    whole = losses(tmp_path, make_model=still, max_steps=6)
    for accumulate in (3, 8):
        split = losses(tmp_path, make_model=still, max_steps=6, accumulate=accumulate)
        assert split == pytest.approx(whole, rel=1e-6)


@pytest.mark.slow
def test_accumulation_is_metered_as_one_step(tmp_path: Path) -> None:
    """Each part is padded to its own longest row."""
    progress = [train(parts(tmp_path, accumulate=accumulate)).progress for accumulate in (1, 4, 8)]
    assert len({one.tokens for one in progress}) == 1
    assert len({one.flops for one in progress}) == 1


@pytest.mark.slow
def test_padding_is_a_share_of_its_own_and_no_work_of_the_model(tmp_path: Path) -> None:
    ragged, even = (train(parts(tmp_path, data=TinyData(ragged=ragged))) for ragged in (True, False))
    assert even.throughput["padding_share"] == 0 < ragged.throughput["padding_share"] < 1
    assert ragged.progress.flops < even.progress.flops


@pytest.mark.slow
def test_directions_are_drawn_anew_by_steps_however_many_passes_one_takes(tmp_path: Path) -> None:
    def curve_of(accumulate: int, redraw_every: int | None = 2) -> list[float]:
        make = partial(still, mixer=partial(Performer, redraw_every=redraw_every))
        return losses(tmp_path, make_model=make, max_steps=6, accumulate=accumulate)

    assert curve_of(4) == pytest.approx(curve_of(1), rel=1e-6)
    assert curve_of(1, redraw_every=None) != pytest.approx(curve_of(1), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["full", "every_k", "attention"])
def test_gradient_checkpointing_changes_no_loss(tmp_path: Path, kind) -> None:
    assert losses(tmp_path, checkpointing=Checkpointing(kind)) == pytest.approx(losses(tmp_path), rel=1e-6)


@pytest.mark.process
def test_batches_made_by_other_processes_are_the_same(tmp_path: Path) -> None:
    assert losses(tmp_path, num_workers=1, max_steps=6) == losses(tmp_path, max_steps=6)


@pytest.mark.slow
def test_a_run_takes_the_threads_it_is_given_and_gives_them_back(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    record = train(parts(tmp_path, threads=before + 1, max_steps=2))
    assert record.environment.device["threads"] == before + 1
    assert torch.get_num_threads() == before


def test_a_run_has_no_more_threads_than_openmp_may_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN promises itself as many as torch has, and leaves out the share of those that are never started."""
    monkeypatch.setenv("OMP_THREAD_LIMIT", "1")
    record = train(parts(tmp_path, threads=3, max_steps=2))
    assert record.environment.device["threads"] == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["64-true", "bf16-mixed", "bf16-true"])
def test_every_precision_trains_near_float32(tmp_path: Path, name) -> None:
    record = train(parts(tmp_path, make_model=still, precision=Precision(name)))
    assert record.status == "finished" and record.comparability.precision == name
    exact = losses(tmp_path, make_model=still)
    assert curve(record.path) == pytest.approx(exact, rel=1e-5 if name == "64-true" else 0.03)
    dtypes = {tensor.dtype for tensor in load_best(record.path)["model"].values()}
    assert dtypes == {{"64-true": torch.float64, "bf16-true": torch.bfloat16}.get(name, torch.float32)}


def test_16_mixed_on_a_cpu_says_what_it_becomes_and_records_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "headtohead"):
        record = train(parts(tmp_path, max_steps=2, precision=Precision("16-mixed")))
    assert record.comparability.precision == "bf16-mixed"
    assert "precision=16-mixed needs a GPU: this run uses bf16-mixed" in caplog.text


@pytest.mark.slow
def test_the_best_checkpoint_is_the_one_that_validation_chose(tmp_path: Path) -> None:
    """A rate that grows wild after a good start: the last weights are worse than an earlier validation's."""
    wild = partial(adamw, lr=0.02, weight_decay=0.0)
    record = train(
        parts(tmp_path, optimizer=wild, schedule=lambda _: lambda step: 0.2 if step < 20 else 20.0, max_steps=30)
    )
    validation = curve(record.path, "validation/loss")
    steps = [5 * (position + 1) for position in range(len(validation))]
    best = int(np.argmin(validation))
    assert best < len(validation) - 1
    assert record.selection.step == steps[best] and record.selection.value == validation[best]
    assert record.metrics["validation"]["loss"] == validation[best]
    assert load(record.path / "checkpoints" / "best.ckpt")["step"] == steps[best]


@pytest.mark.slow
def test_the_test_set_is_measured_with_the_best_weights(tmp_path: Path) -> None:
    record = train(parts(tmp_path))
    model, data, task = still(), TinyData(), parts(tmp_path).task
    model.load_state_dict(load_best(record.path)["model"])
    batch = task.view(data.split("test").batch(np.arange(NUM_ROWS["test"])), seed=0, epoch=0)
    with torch.no_grad():
        assert task.loss(model.eval(), batch).mean.item() == pytest.approx(record.metrics["test"]["loss"], rel=1e-6)


@pytest.mark.slow
def test_an_early_stop_comes_after_as_many_validations_without_gain_as_allowed(tmp_path: Path) -> None:
    frozen = partial(adamw, lr=0.0)
    record = train(parts(tmp_path, optimizer=frozen, schedule=constant, patience=2, max_steps=100))
    assert record.status == "finished"
    assert record.progress.step == 15 and record.selection.step == 5


@pytest.mark.slow
def test_averaged_weights_are_what_is_evaluated_and_kept_but_not_what_is_trained(tmp_path: Path) -> None:
    plain = train(parts(tmp_path))
    averaged = train(parts(tmp_path, weight_averaging=0.9))
    assert curve(averaged.path) == curve(plain.path)
    assert averaged.metrics["validation"]["loss"] != plain.metrics["validation"]["loss"]
    saved, last = load_best(averaged.path)["model"], load(averaged.path / "checkpoints" / "last.ckpt")
    name = "embedding.weight"
    assert not torch.equal(saved[name], last["state_dict"][f"model.{name}"])
    average = dict(zip([n for n, _ in still().named_parameters()], last["average"], strict=True))
    assert torch.equal(saved[name], average[name])


@pytest.mark.slow
def test_the_first_weights_can_come_from_another_run(tmp_path: Path) -> None:
    first = train(parts(tmp_path))
    identity = RunInfo(seed=5, output_dir=tmp_path, init_from=first.path)
    second = train(parts(tmp_path, optimizer=partial(adamw, lr=0.0), identity=identity, max_steps=1))
    assert second.metrics["validation"] == first.metrics["validation"]


def test_weights_of_another_shape_are_refused_with_their_names(tmp_path: Path) -> None:
    first = train(parts(tmp_path, max_steps=1))
    identity = RunInfo(output_dir=tmp_path, init_from=first.path)
    with pytest.raises(
        ValueError, match=r"does not fit this model: embedding\.weight is 29 x 16 there and 29 x 8 here"
    ):
        train(parts(tmp_path, identity=identity, make_model=partial(make_model, d_model=8)))


@pytest.mark.parametrize(
    ("keep", "left"), [("all", {"best.ckpt", "last.ckpt"}), ("best", {"best.ckpt"}), ("none", set())]
)
def test_what_is_not_to_be_kept_of_a_finished_run_is_gone(tmp_path: Path, keep: str, left: set[str]) -> None:
    record = train(parts(tmp_path, max_steps=2, keep_checkpoints=keep))
    assert {file.name for file in (record.path / "checkpoints").iterdir()} == left


@pytest.mark.slow
@pytest.mark.process
def test_compiled_runs_agree_and_leave_no_trace_in_the_names_of_weights(tmp_path: Path) -> None:
    """The run has a program of its own: the compiler cannot look through the tests' checks of shapes."""
    compiled, plain = records_of(
        "from headtohead.training.loop import compiled_model; compiled_model.BACKEND = 'aot_eager'\n"
        "for compiled in (True, False): tell(train(parts(folder, make_model=still, compile=compiled, max_steps=3)))",
        tmp_path,
    )
    assert curve(compiled.path) == pytest.approx(curve(plain.path), rel=1e-5)
    for weights in (load_best(compiled.path)["model"], load(compiled.path / "checkpoints" / "last.ckpt")["state_dict"]):
        assert not any("_orig_mod" in name for name in weights)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_steps": -1}, r"trainer\.max_steps=-1: give 1 or more"),
        ({"devices": 2}, r"trainer\.devices=2 needs trainer=ddp"),
        ({"accumulate": 9}, r"data\.batch_size=8 cannot be split over 1 devices in trainer\.accumulate=9"),
        ({"gradient_clip": 0.0}, r"trainer\.gradient_clip=0\.0: give a norm above 0, or null"),
        ({"weight_averaging": 1.0}, r"trainer\.weight_averaging=1\.0: give a decay"),
    ],
)
def test_impossible_settings_are_refused_before_a_folder_is_made(tmp_path: Path, changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(parts(tmp_path, **changes))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "word"), [({"accumulate": 2}, "accumulate"), ({"strategy": "ddp"}, "strategy=ddp")]
)
def test_batch_norm_is_refused_where_a_batch_is_split(tmp_path: Path, changes: dict, word: str) -> None:
    with pytest.raises(ValueError, match=rf"model/norm=batch_norm .*trainer.{word}"):
        train(parts(tmp_path, make_model=partial(make_model, norm=BatchNorm), **changes))


@pytest.mark.slow
def test_what_is_logged_has_names_that_every_run_shares(tmp_path: Path) -> None:
    names = set(RunFolder.open(train(parts(tmp_path)).path).metrics())
    assert {"train/loss", "train/learning_rate", "validation/loss", "test/loss"} <= names
    assert {"throughput/tokens_per_second", "throughput/peak_memory_bytes"} <= names
    assert {"gradient_norm/embedding", "update_norm/stack.blocks.0", "gradient_norm/stack.final_norm"} <= names


@pytest.mark.slow
def test_loss_scaling_changes_what_float16_can_hold_not_what_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arithmetic of 16-mixed, which Lightning only offers on a GPU, by giving a CPU its plugin and its scaler."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=1000)
    plugin = MixedPrecision("16-mixed", "cpu", scaler)

    def with_scaler(**arguments: Any) -> Trainer:
        arguments.pop("precision")
        return Trainer(**{**arguments, "plugins": [*arguments["plugins"], plugin]})

    monkeypatch.setattr("headtohead.training.trainer.Trainer", with_scaler)
    settings = {"make_model": still, "gradient_clip": 0.5, "max_steps": 30}
    record = train(parts(tmp_path, **settings))
    monkeypatch.undo()
    scales = curve(record.path, "train/loss_scale")
    assert min(scales) < 2.0**20, "the first scales were too large, and their steps were left out"
    exact = train(parts(tmp_path, **settings))
    skipped = sum(after < before for before, after in zip([2.0**20, *scales], scales, strict=False))
    later = curve(record.path, "gradient_norm/embedding")[skipped]
    assert later == pytest.approx(curve(exact.path, "gradient_norm/embedding")[0], rel=0.5), "norms are unscaled"
    assert curve(record.path)[-1] == pytest.approx(curve(exact.path)[-1], abs=0.15)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tensor_parallel": 2}, r"trainer\.tensor_parallel=2 needs trainer=tensor_parallel"),
        ({"tensor_parallel": 2, "devices": 3, "strategy": "model_parallel"}, r"does not divide trainer\.devices=3"),
        ({"strategy": "model_parallel", "weight_averaging": 0.9}, r"weight_averaging=0\.9 keeps a copy"),
    ],
)
def test_what_cannot_be_spread_is_refused(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        train(parts(tmp_path, **{"devices": 2, **changes}))
    assert not (tmp_path / "default").exists(), "before the run has a folder"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"position": Alibi}, "Alibi biases the scores of all"),
        ({"num_heads": 1}, r"cannot divide stack\.blocks\.0\.mixer \(SoftmaxAttention\), which has 1 heads"),
        ({"d_model": 17, "num_heads": 1}, "cannot divide"),
    ],
)
def test_a_model_that_cannot_be_divided_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        check_tensor_parallel_plans(make_model(**changes), 2)


def test_normed_queries_keep_an_attention_whole() -> None:
    mixer = partial(SoftmaxAttention, heads=AttentionHeads(qk_norm=True))
    model = make_model(mixer=mixer, num_heads=1)
    check_tensor_parallel_plans(model, 2)
    assert model.stack.layers[0].mixer.tensor_parallel_plan() is None


@pytest.mark.slow
def test_what_stays_in_float32_is_trained_and_saved_in_it_and_not_sharded_with_the_rest(tmp_path: Path) -> None:
    record = train(parts(tmp_path, make_model=partial(make_model, mixer=S4d), precision=Precision("bf16-true")))
    assert record.status == "finished"
    weights = {
        name.rpartition(".")[2]: tensor for name, tensor in load_best(record.path)["model"].items() if "mixer" in name
    }
    assert {weights[name].dtype for name in S4d.float32_parameters} == {torch.float32}
    assert weights["C"].dtype == torch.bfloat16
    spread, model = TrainerSettings(strategy="model_parallel", devices=2), make_model(mixer=S4d)
    check_model(model, spread, Precision("bf16-mixed"))
    with pytest.raises(ValueError, match=r"leaves log_step, log_decay, frequency of stack\.blocks\.0\.mixer \(S4d\)"):
        check_model(model, spread, Precision("bf16-true"))
