"""W&B gets the same metadata in every family, so that its page can group and filter runs."""

from __future__ import annotations

import math

import pytest

import headtohead as h2h
from headtohead.records.record import RunRecord, StudyPosition
from headtohead.wandb_client.connection import TrackingSettings
from headtohead.wandb_client.logged_rows import Extremes
from headtohead.wandb_client.run_metadata import beside_config, group_of, job_of, tags_of


def test_a_losss_smallest_and_an_accuracys_largest_value_are_told_with_the_last_of_each() -> None:
    extremes = Extremes()
    for loss, accuracy in ((3.0, 0.1), (1.0, 0.9), (math.nan, 0.5)):
        extremes.take({"validation/loss": loss, "validation/accuracy": accuracy, "train/learning_rate": loss})
    message = extremes.as_summary()
    assert math.isnan(message.pop("last/validation/loss"))
    assert message == {"min/validation/loss": 1.0, "max/validation/accuracy": 0.9, "last/validation/accuracy": 0.5}


@pytest.mark.parametrize(
    ("overrides", "tags"),
    [
        (["model=decoder_only", "model/position=none"], ["decoder_only", "softmax_attention", "no position"]),
        (["model=decoder_only", "model.pattern=[mamba,softmax_attention]"], ["decoder_only", "mamba"]),
        (["model=cnn", "task=image_classification", "data=digits"], ["cnn", "batch_norm"]),
    ],
)  # fmt: skip
def test_family_mixer_position_and_norm_are_tags(overrides: list[str], tags: list[str]) -> None:
    record = RunRecord("a", tags=["mine"], config=h2h.compose("train", overrides))
    assert tags_of(record)[: len(tags) + 1] == ["mine", *tags]


def test_runs_that_no_verdict_rests_on_have_a_job_type_of_their_own() -> None:
    study = {"study": "s", "arm": "a", "seed": 0}
    assert job_of(RunRecord("a", place=StudyPosition(**study)), TrackingSettings()) == "train"
    assert job_of(RunRecord("a", place=StudyPosition(**study, trial=3)), TrackingSettings()) == "trial"
    assert job_of(RunRecord("a", place=StudyPosition(**study, share=0.5)), TrackingSettings()) == "part"


def test_the_group_is_the_study_and_without_one_the_sweep_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert group_of(RunRecord("a")) == "default"
    monkeypatch.setenv("WANDB_SWEEP_ID", "sw1")
    assert group_of(RunRecord("a")) == "sw1"
    assert group_of(RunRecord("a", group="norms")) == "norms"


def test_every_run_has_an_arm_to_be_grouped_by() -> None:
    assert beside_config(RunRecord("a", name="tiny", place=StudyPosition("s", "gpt", 1)))["arm"] == "gpt"
    assert beside_config(RunRecord("a", name="tiny"))["arm"] == "tiny"
    assert "place" not in beside_config(RunRecord("a"))
