"""Arms timed in turn, and runs made as long as the baseline's by what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate, cycle
from pathlib import Path
from typing import Any

import pytest
import torch

from headtohead.config.build import build_parts
from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.estimates import step_times
from headtohead.estimates.step_times import TimedModel, _shape_of, measure_step_times
from headtohead.estimates.step_timing import StepTiming
from headtohead.studies.matching.budgets import EqualTime
from headtohead.studies.matching.match_arms import match
from headtohead.studies.matching.matching import uncertain
from headtohead.training.checkpoints import LAST, load
from headtohead.training.run import train
from headtohead.training.run_components import TrainerSettings

SMALL = [
    "data.num_train=40", "data.num_validation=4", "data.num_test=4", "data.batch_size=4", "data.context_length=8",
    "data.tokenizer=char", "model.d_model=16", "trainer=cpu", "trainer.threads=1", "tracking=none",
]  # fmt: skip
LSTM = ["model/mixer=lstm", "model/position=none"]


@pytest.fixture(scope="module", autouse=True)
def cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADTOHEAD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def config_of(*overrides: str) -> dict[str, Any]:
    return compose_checked("train", [*SMALL, *overrides])


def timing(*turns: float) -> StepTiming:
    return StepTiming(turns, "a device", {})


@pytest.mark.slow
def test_arms_take_turns_and_their_medians_count() -> None:
    """A clock by which the turns of the first arm take 2 seconds and those of the second 6, nothing between them."""
    ticks = accumulate(cycle([2.0, 0.0, 6.0, 0.0]), initial=0.0)
    configs = {"attention": config_of(), "lstm": config_of(*LSTM)}
    timings = measure_step_times(configs, rounds=3, turn_steps=2, clock=lambda: next(ticks))
    assert {name: result.step_seconds for name, result in timings.items()} == {"attention": 1.0, "lstm": 3.0}
    assert timings["lstm"].uncertainty(timings["attention"]) == 0.0
    assert len(timings["lstm"].turns) == 3


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["ddp", "fsdp"])
def test_a_run_over_several_devices_is_timed_by_one_share_and_its_messages(
    trainer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    over_two = config_of(f"trainer={trainer}", "trainer.devices=2", "trainer.accelerator=cpu", "trainer.threads=1")
    trainee = TimedModel(over_two)
    assert trainee.messages > 0 == TimedModel(config_of()).messages
    assert trainee._batches[0].parts[0].num_samples == 2, "its share of four rows"
    monkeypatch.setattr(step_times, "message_seconds", lambda *_: 0.5)
    ticks = accumulate(cycle([2.0, 0.0]), initial=0.0)
    timings = measure_step_times({"both": over_two}, rounds=3, turn_steps=2, clock=lambda: next(ticks))
    assert timings["both"].step_seconds == 1.5


@pytest.mark.slow
def test_layers_divided_among_devices_cannot_be_timed() -> None:
    with pytest.raises(ConfigurationError, match=r"tensor_parallel=2 divides layers.*trainer=ddp"):
        TimedModel(config_of("trainer=tensor_parallel", "trainer.devices=2", "trainer.accelerator=cpu"))


DIGITS = ["data=digits", "task=image_classification", "model=mlp", "data.num_train=40", "data.batch_size=8"]
STEPS = {
    "plain": [*SMALL, "model.dropout=0.1"],
    "mixed, in parts": [*SMALL, "precision=bf16-mixed", "trainer.accumulate=2"],
    "experts, averaged": [*SMALL, "model/feedforward=moe", "trainer.weight_averaging=0.9"],
    "on a sphere": [*SMALL, "model=ngpt"],
    "images mixed on their device": [*DIGITS, "augmentation=mixup", *SMALL[-3:]],
}


@pytest.mark.slow
@pytest.mark.parametrize("case", STEPS)
def test_timed_steps_are_those_of_training(case: str, tmp_path: Path) -> None:
    length = ["trainer.max_steps=3", "trainer.num_samples=0", "probe=none", f"output_dir={tmp_path}"]
    config = compose_checked("train", [*STEPS[case], *length])
    record = train(build_parts(config))
    assert record.status == "finished" and record.path is not None, record.reason
    trainee = TimedModel(config)
    trainee.train(record.progress.step)
    saved = load(record.path / "checkpoints" / LAST)
    for name, weight in trainee.model.state_dict().items():
        assert torch.equal(weight, saved["state_dict"][f"model.{name}"]), name
    averages = zip(trainee.average.state() if trainee.average else [], saved["average"] or [], strict=True)
    assert all(torch.equal(own, trained) for own, trained in averages)


OF_NO_STEP = {
    "max_steps", "max_epochs", "batch_tokens", "train_rows", "log_every", "validate_every", "validation_batches",
    "patience", "min_delta", "num_workers", "deterministic", "progress_bar", "num_samples", "keep_checkpoints",
}  # fmt: skip
"""The fields of the trainer between which a step of one length takes as long."""


def test_arms_share_a_time_unless_they_differ_in_what_a_step_does() -> None:
    fields = set(TrainerSettings.__dataclass_fields__)
    assert fields == {*step_times._OF_THE_TRAINER, *OF_NO_STEP}
    shapes = [_shape_of(config_of(*change)) for change in ([], ["seed=1"], ["trainer.weight_averaging=0.9"])]
    assert shapes[0] == shapes[1] != shapes[2]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> dict[str, StepTiming]:
    timings = {"attention": timing(*[1.0] * 7), "lstm": timing(*[3.0] * 7)}
    monkeypatch.setattr(step_times, "measure_step_times", lambda *_, **__: timings)
    return timings


def test_slower_arm_takes_fewer_steps(timed: dict[str, StepTiming]) -> None:
    matching = match(SMALL, {"attention": [], "lstm": LSTM}, "attention", EqualTime())
    arm = matching.arm("lstm")
    assert arm.met and arm.overrides == ("trainer.max_steps=333",) and arm.achieved == 999.0
    assert not uncertain(arm, matching.budget) and arm.differs["tokens"] == pytest.approx(0.333)


def test_scattered_turns_make_no_match_that_is_sure(timed: dict[str, StepTiming]) -> None:
    timed["lstm"] = timing(3.0, 3.6, 2.4, 3.1, 2.9, 3.0, 3.3)
    matching = match(SMALL, {"attention": [], "lstm": LSTM}, "attention", EqualTime())
    arm = matching.arm("lstm")
    assert arm.met and uncertain(arm, matching.budget) and arm.uncertainty == pytest.approx(0.2)


def test_one_odd_turn_of_many_does_not_make_the_median_uncertain() -> None:
    many = timing(*[3.0] * 19, 30.0)
    assert many.uncertainty(timing(*[1.0] * 20)) == 0.0 and many.step_seconds == 3.0


def test_run_too_slow_for_a_single_step_is_said_to_be_so(timed: dict[str, StepTiming]) -> None:
    timed["lstm"] = timing(*[3000.0] * 7)
    arm = match(SMALL, {"attention": [], "lstm": LSTM}, "attention", EqualTime()).arm("lstm")
    assert not arm.met and arm.overrides == ("trainer.max_steps=1",) and "settings of steps none gives" in arm.reason


def test_threads_set_apart_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"different trainer\.threads"):
        measure_step_times({"a": config_of(), "b": config_of("trainer.threads=2")}, rounds=1, turn_steps=1)
