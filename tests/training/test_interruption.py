"""Runs that end before their last step: stopped, diverged, out of memory, failed; and runs that go on after it."""

from __future__ import annotations

import math
import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from headtohead.records.early_stopping_marker import end_early
from headtohead.records.run_folder import RunFolder, find_runs
from headtohead.tasks.causal_lm import CausalLanguageModelling
from headtohead.tasks.task import Loss
from headtohead.training.callbacks.checkpointer import Checkpointer
from headtohead.training.loop.precision import Precision, PrecisionName
from headtohead.training.loop.training_module import TrainingModule
from headtohead.training.optim.optimizers import adamw
from headtohead.training.optim.schedules import constant
from headtohead.training.run import train
from headtohead.training.run_components import ProbeSettings, RunComponents
from headtohead.training.run_outcome import Diverged, outcome_of
from headtohead.wandb_client.connection import TrackingSettings
from training.interruptions import at_batch, interrupted, send
from training.runs import TinyData, curve, losses, parts


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
def test_a_signal_ends_the_step_keeps_a_checkpoint_and_says_why(tmp_path: Path, number: signal.Signals) -> None:
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    record = interrupted(tmp_path, batch=8, number=number)
    assert record.reason == f"stopped by {number.name}"
    assert record.progress.step == 7
    assert (record.path / "checkpoints" / "last.ckpt").exists()
    assert RunFolder.open(record.path).read_record() == record
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_what_a_scheduler_and_a_worker_send_together_is_one_request(tmp_path: Path) -> None:
    def both() -> None:
        os.kill(os.getpid(), signal.SIGUSR2)
        os.kill(os.getpid(), signal.SIGTERM)

    record = train(parts(tmp_path, data=at_batch(8, both)))
    assert record.status == "interrupted" and record.progress.step == 7, "the step is ended, and its checkpoint kept"


@pytest.mark.slow
@pytest.mark.parametrize("batch", [2, 5, 6, 9])
def test_a_resumed_run_has_bit_equal_losses_to_an_undisturbed_one(tmp_path: Path, batch: int) -> None:
    """The run is stopped before the first validation, at one, mid-epoch, in the second epoch; with averaged weights and
    unlogged steps."""
    changes = {"log_every": 3, "weight_averaging": 0.9, "accumulate": 2}
    whole = train(parts(tmp_path, **changes))
    first = interrupted(tmp_path, batch, **changes)
    second = train(parts(tmp_path, resume_from=first.path, **changes))
    assert second.status == "finished" and second.id == first.id and second.timing.starts == 2
    for name in ("train/loss", "validation/loss", "test/loss", "update_norm/stack.blocks.0"):
        assert curve(second.path, name) == curve(whole.path, name)
    assert replace(second.progress, seconds=0) == replace(whole.progress, seconds=0)
    assert second.metrics == whole.metrics and second.selection == whole.selection


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"patience": 1, "min_delta": 100.0}], ids=["at the last step", "by patience"])
def test_a_run_that_dies_after_its_last_checkpoint_has_all_rows_of_the_training_and_trains_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    def dies(checkpointer: Checkpointer, module: TrainingModule) -> None:
        if module.state.is_done(module.settings):
            raise SystemExit

    changes = {"probe": ProbeSettings(), **changes}
    whole = train(parts(tmp_path / "whole", **changes))
    with monkeypatch.context() as patched, pytest.raises(SystemExit):
        patched.setattr(Checkpointer, "_report", dies)
        train(parts(tmp_path / "dead", **changes))
    (dead,) = find_runs(tmp_path / "dead")
    resumed = train(parts(tmp_path / "dead", resume_from=dead.path, **changes))

    assert resumed.status == "finished" and resumed.path == dead.path
    assert resumed.progress.step == whole.progress.step and resumed.metrics == whole.metrics
    rows, expected = ({name: c.value for name, c in RunFolder.open(r.path).metrics().items()} for r in (resumed, whole))
    times = [name for name in rows.keys() | expected.keys() if name.startswith("throughput")]
    assert any(name.startswith("attention") for name in expected)
    assert [rows.pop(name, None) for name in times] and [expected.pop(name, None) for name in times]
    assert rows == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", ["64-true", "bf16-true", "bf16-mixed"])
def test_a_resumed_run_has_bit_equal_losses_in_every_precision(tmp_path: Path, name: PrecisionName) -> None:
    precision = Precision(name)
    whole = losses(tmp_path, precision=precision)
    first = interrupted(tmp_path, 6, precision=precision)
    second = train(parts(tmp_path, resume_from=first.path, precision=precision))
    assert curve(second.path) == whole


@pytest.mark.slow
def test_a_run_may_be_stopped_and_resumed_again_and_again(tmp_path: Path) -> None:
    whole = losses(tmp_path)
    record = interrupted(tmp_path, 3)
    for _ in range(2):
        record = interrupted(tmp_path, 3, resume_from=record.path)
    record = train(parts(tmp_path, resume_from=record.path))
    assert curve(record.path) == whole
    assert record.timing.starts == 4


@pytest.mark.slow
def test_a_run_stopped_while_it_is_tested_resumes_with_the_test(tmp_path: Path) -> None:
    whole = train(parts(tmp_path))
    task = CausalLanguageModelling().bind(TinyData().spec())
    measure = task.measure

    def stop_once(stage, model, batch) -> None:
        measure(stage, model, batch)
        if stage == "test":
            os.kill(os.getpid(), signal.SIGTERM)

    task.measure = stop_once  # type: ignore[method-assign]
    first = train(parts(tmp_path, task=task))
    assert first.status == "interrupted" and first.progress.step == 12 and not first.metrics["test"]
    second = train(parts(tmp_path, resume_from=first.path))
    assert second.status == "finished" and second.metrics == whole.metrics
    peak = max(record.throughput["peak_memory_bytes"] or 0 for record in (first, second))
    assert second.throughput == {**first.throughput, "peak_memory_bytes": peak}, "it has trained no step"


@pytest.mark.slow
@pytest.mark.parametrize("taken", [8, 11])
def test_a_resumed_run_measures_its_speed_however_few_steps_are_left(tmp_path: Path, taken: int) -> None:
    first = interrupted(tmp_path, taken, log_every=50)
    second = train(parts(tmp_path, resume_from=first.path, log_every=50))
    assert first.progress.step < second.progress.step and second.throughput["tokens_per_second"] > 0


@pytest.mark.slow
def test_a_second_signal_stops_at_once_and_the_last_validation_is_resumed_from(tmp_path: Path) -> None:
    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    first = train(parts(tmp_path, data=at_batch(8, twice)))
    assert first.status == "interrupted" and first.reason == "stopped by SIGINT"
    second = train(parts(tmp_path, resume_from=first.path))
    assert curve(second.path) == losses(tmp_path)


@pytest.mark.slow
def test_a_run_killed_before_its_first_checkpoint_starts_again_at_step_0(tmp_path: Path) -> None:
    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    first = train(parts(tmp_path, data=at_batch(3, twice)))
    second = train(parts(tmp_path, resume_from=first.path))
    assert second.id == first.id and curve(second.path) == losses(tmp_path)


def test_a_run_is_not_continued_under_another_seed(tmp_path: Path) -> None:
    first = interrupted(tmp_path, 3)
    before = (first.path / "metrics.csv").read_text()
    with pytest.raises(ValueError, match=r"has seed=0 and this run seed=1"):
        train(parts(tmp_path, seed=1, resume_from=first.path))
    assert (first.path / "metrics.csv").read_text() == before


@pytest.mark.slow
def test_a_finished_run_is_not_trained_again_but_may_be_given_more_steps(tmp_path: Path) -> None:
    first = train(parts(tmp_path, max_steps=5))
    with pytest.raises(ValueError, match=r"is finished: .* init_from"):
        train(parts(tmp_path, max_steps=5, resume_from=first.path))
    assert RunFolder.open(first.path).read_record() == first
    config = {"trainer": {"max_steps": 8}}
    longer = train(parts(tmp_path, max_steps=8, config=config, resume_from=first.path))
    assert longer.progress.step == 8 and longer.config == {**config, "resume_from": None}


def test_a_run_that_tracking_refuses_does_not_stay_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise ValueError("tracking=online needs a login")

    monkeypatch.setattr("headtohead.training.run_recorder.start", refuse)
    with pytest.raises(ValueError, match="needs a login"):
        train(parts(tmp_path))
    (folder,) = (tmp_path / "default").iterdir()
    assert RunFolder.open(folder).read_record().status == "failed"


class Poisoned(CausalLanguageModelling):
    """A loss that is `value` from some training step on."""

    def __init__(self, step: int, value: float) -> None:
        super().__init__()
        self.calls, self.step, self.value = 0, step, value

    def loss(self, model, batch) -> Loss:
        loss = super().loss(model, batch)
        self.calls += 1
        return loss if self.calls < self.step else Loss(loss.total * self.value, loss.count)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("log_every", [1, 50])
def test_a_loss_that_is_no_number_ends_the_run_as_diverged_with_its_step(
    tmp_path: Path, value: float, log_every: int
) -> None:
    record = train(parts(tmp_path, task=Poisoned(7, value).bind(TinyData().spec()), log_every=log_every))
    assert record.status == "diverged"
    assert record.reason is not None and f"train/loss was {value} at step 7" in record.reason
    assert "lower optimizer.lr" in record.reason
    assert record.progress.step <= 10, "found before the next validation"
    assert record.selection.step == 5 and record.metrics["validation"]
    assert RunFolder.open(record.path).read_record() == record


def test_weights_that_blow_up_end_the_run_as_diverged(tmp_path: Path) -> None:
    record = train(parts(tmp_path, optimizer=partial(adamw, lr=1e30), schedule=constant, gradient_clip=None))
    assert record.status == "diverged"
    assert record.reason is not None and "set trainer.gradient_clip" in record.reason


def test_clipping_that_is_there_already_is_advised_to_be_lowered(tmp_path: Path) -> None:
    status, reason = outcome_of(Diverged("train/loss", math.nan, 2), parts(tmp_path, gradient_clip=0.5))
    assert status == "diverged" and "lower trainer.gradient_clip (now 0.5)" in reason


class Hungry(CausalLanguageModelling):
    def __init__(self, error: BaseException | None) -> None:
        super().__init__()
        self.error = error

    def loss(self, model, batch) -> Loss:
        if self.error is not None:
            raise self.error
        torch.empty(2**60, dtype=torch.uint8)
        raise AssertionError("no machine has an exbibyte")


@pytest.mark.parametrize("error", [None, torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")])
def test_out_of_memory_is_a_result_that_says_what_to_lower(tmp_path: Path, error: BaseException | None) -> None:
    record = train(parts(tmp_path, task=Hungry(error).bind(TinyData().spec())))
    assert record.status == "out_of_memory"
    assert record.reason is not None and "memory" in record.reason
    for advice in ("trainer.accumulate (now 1)", "data.batch_size (now 8)", "checkpointing=full", "bf16-mixed"):
        assert advice in record.reason
    assert RunFolder.open(record.path).read_record() == record


def test_any_other_error_is_recorded_as_failed_and_raised(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError, match="by accident"):
        train(parts(tmp_path, task=Hungry(ZeroDivisionError("by accident")).bind(TinyData().spec())))
    (folder,) = (tmp_path / "default").iterdir()
    record = RunFolder.open(folder).read_record()
    assert record.status == "failed" and record.reason == "ZeroDivisionError: by accident"
    assert record.timing.finished is not None and record.environment.python


def test_a_task_whose_count_is_not_its_number_of_targets_is_refused(tmp_path: Path) -> None:
    class Miscounting(CausalLanguageModelling):
        def loss(self, model, batch) -> Loss:
            loss = super().loss(model, batch)
            return Loss(loss.total, loss.count + 1)

    with pytest.raises(
        ValueError, match=r"Miscounting\.loss counts 64 in a batch of which Miscounting\.counted promises 63"
    ):
        train(parts(tmp_path, task=Miscounting().bind(TinyData().spec())))


@pytest.mark.process
def test_a_resumed_run_keeps_its_wandb_run(tmp_path: Path) -> None:
    def tracked(**changes: object) -> RunComponents:
        return parts(tmp_path, tracking=TrackingSettings(mode="offline", system_metrics=False), **changes)

    first = train(tracked(data=at_batch(4, send(signal.SIGTERM))))
    second = train(tracked(resume_from=first.path))
    assert first.wandb.id is not None
    assert second.wandb.id == first.wandb.id and second.wandb.mode == "offline"
    assert second.status == "finished"


def test_a_run_that_others_have_outdone_says_so_in_its_record(tmp_path: Path) -> None:
    def outdone() -> None:
        (record,) = tmp_path.rglob("record.json")
        end_early(record.parent, "Hyperband, bracket 3")
        os.kill(os.getpid(), signal.SIGTERM)

    record = train(parts(tmp_path, data=at_batch(8, outdone)))
    assert (record.status, record.reason) == ("interrupted", "Hyperband, bracket 3")
    assert record.path is not None and RunFolder.open(record.path).read_record().reason == record.reason
