"""A run that was is run again under its own configuration, with what is given on top."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.from_run import rerun
from headtohead.config.run_id import run_id
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder

OVERRIDES = [
    "model/mixer=sliding_window",
    "model.mixer.window=4",
    "model.d_model=48",
    "optimizer.lr=0.02",
    "data.num_train=77",
    "trainer.max_steps=30",
    "tracking=none",
]
SIDES = ["model=encoder_decoder", "task=seq2seq", "data=reverse", "data.form=pairs"]


def recorded_run(folder: Path, *overrides: str) -> Path:
    """Write a run's record as training does: what was left to the data is filled in."""
    config = compose_checked("train", [*OVERRIDES, *overrides])
    config["model"] |= {"vocab_size": 512, "max_length": 64}
    run = RunFolder.create(folder, name="first")
    run.write_config(yaml.safe_dump(config))
    run.write_record(RunRecord(id=run.id, config=config, status="finished"))
    return run.path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return recorded_run(tmp_path)


def config_of(run: Path) -> dict[str, Any]:
    return RunFolder.open(run).read_record_as_written().config


@pytest.mark.parametrize("file", ["", "config.yaml", "record.json"])
def test_with_nothing_given_it_is_the_same_run(run: Path, file: str) -> None:
    again = rerun(run / file)
    assert again == config_of(run) and run_id(again) == run_id(config_of(run))


def test_values_come_on_top_in_their_own_types(run: Path) -> None:
    again = rerun(run, ["optimizer.lr=1e-3", "model.mixer.window=6", "seed=2", "tags=[a,b]", "notes=null"])
    before = config_of(run)
    assert again["optimizer"] == {**before["optimizer"], "lr": 0.001} and again["tags"] == ["a", "b"]
    assert again["model"] == {**before["model"], "mixer": {**before["model"]["mixer"], "window": 6}}
    assert again["seed"] == 2 and before["name"].endswith("-num_train77-s0")
    assert again["name"] == before["name"].removesuffix("-s0") + "-lr1e_3-window6-s2"


def test_another_choice_leaves_no_field_of_the_old_one_behind(run: Path) -> None:
    again = rerun(run, ["model/mixer=mamba", "model/position=none", "optimizer=sgd"])
    usual = compose_checked("train", ["model/mixer=mamba", "model/position=none", "optimizer=sgd"])
    assert again["model"]["mixer"] == usual["model"]["mixer"] and again["optimizer"] == usual["optimizer"]
    assert again["model"]["d_model"] == 48 and again["choices"]["model/mixer"] == "mamba"


def test_choices_of_one_class_keep_what_was_set_by_hand(run: Path) -> None:
    again = rerun(run, ["trainer=ddp", "precision=bf16-mixed"])
    assert again["trainer"] == {**config_of(run)["trainer"], "strategy": "ddp", "devices": 2}
    assert again["precision"]["name"] == "bf16-mixed" and again["choices"]["trainer"] == "ddp"


def test_a_size_is_put_into_the_model_and_another_model_is_taken_whole(run: Path) -> None:
    assert rerun(run, ["model/size=small"])["model"] == {
        **config_of(run)["model"], "d_model": 128, "num_layers": 3, "num_heads": 4,
    }  # fmt: skip
    provided = ["model=encoder_only", "task=masked_lm", "model/norm=rms_norm"]
    again, usual = rerun(run, provided), compose_checked("train", provided)
    assert again["model"] == usual["model"] and again["task"] == usual["task"]
    assert again["data"] == config_of(run)["data"]
    model_choices = {group: choice for group, choice in usual["choices"].items() if group.startswith("model")}
    assert {group: again["choices"].get(group) for group in again["choices"] if group.startswith("model")} == (
        model_choices
    )


def test_other_data_fill_the_model_anew(run: Path) -> None:
    again = rerun(run, ["data.context_length=128", "model.vocab_size=600"])
    assert again["model"]["max_length"] is None and again["model"]["vocab_size"] == 600


@pytest.mark.slow
def test_a_pattern_may_name_mixers_of_the_run_and_others(tmp_path: Path) -> None:
    first = recorded_run(
        tmp_path,
        "model.pattern=[near,softmax_attention]",
        "+model/mixer@model.mixers.near=sliding_window",
        "model.mixers.near.window=5",
    )
    mixers = rerun(first, ["model.pattern=[near,mamba]"])["model"]["mixers"]
    assert mixers["near"]["window"] == 5 and mixers["mamba"]["_target_"].endswith("Mamba")


@pytest.mark.parametrize(
    ("provided", "message"),
    [
        ("experiment=copy", "many groups at once"),
        ("resume_from=outputs/a", "without --from-run"),
        ("init_from=hf:gpt2", "without --from-run"),
        ("optimizer.lr=${seed}", "give the value"),
        ("optimizer.lrr=1", "did you mean optimizer.lr"),
        ("model/mixer=lstm", "rotary rotates queries and keys"),
        ("optimizer.lr=1,2", "several values"),
        ("~model.mixer.wnd", "the run has no model.mixer.wnd"),
    ],
)
def test_what_cannot_be_put_on_it_is_refused_with_the_reason(run: Path, provided: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        rerun(run, [provided])


def test_a_secret_that_no_record_keeps_must_be_given_again(run: Path) -> None:
    file = run / "config.yaml"
    file.write_text(file.read_text().replace("notes: null", "notes: '***'"))
    with pytest.raises(ConfigurationError, match=r"notes is a secret, .* notes=\.\.\."):
        rerun(run)
    assert rerun(run, ["notes=mine"])["notes"] == "mine"


def test_a_path_without_a_configuration_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere holds no config\.yaml"):
        rerun(tmp_path / "nowhere")
    (tmp_path / "config.yaml").write_text("a: 1\n")
    with pytest.raises(ConfigurationError, match=r"config.yaml holds no configuration of a run"):
        rerun(tmp_path)


@pytest.mark.slow
def test_an_early_feedforward_stays_and_its_fields_may_change(tmp_path: Path) -> None:
    early = ["model.num_early_layers=1", "+model/feedforward@model.early_feedforward=swiglu"]
    run = recorded_run(tmp_path, *early)
    before, again = config_of(run)["model"], rerun(run, ["model.early_feedforward.multiple=2.0"])["model"]
    assert again == {**before, "early_feedforward": {**before["early_feedforward"], "multiple": 2.0}}
    other = rerun(run, ["+model/feedforward@model.early_feedforward=relu"])["model"]
    assert other["early_feedforward"]["activation"] == "relu" and other["num_early_layers"] == 1


@pytest.mark.slow
def test_feedforwards_in_turn_stay_and_their_fields_may_change(tmp_path: Path) -> None:
    run = recorded_run(tmp_path, "model.feedforward_pattern=[swiglu,moe]")
    before, again = config_of(run)["model"], rerun(run, ["model.feedforwards.moe.num_experts=3"])["model"]
    experts = {**before["feedforwards"]["moe"], "num_experts": 3}
    assert again == {**before, "feedforwards": {**before["feedforwards"], "moe": experts}}
    other = rerun(run, ["model.feedforward_pattern=[moe,relu]"])["model"]
    assert (
        other["feedforwards"]["relu"]["activation"] == "relu"
        and other["feedforwards"]["moe"] == before["feedforwards"]["moe"]
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "typed"),
    [
        (["model.feedforward_pattern=[swiglu,moe]"], "model/feedforward=gelu"),
        (["model.feedforward_pattern=[swiglu,moe]"], "model.feedforward.multiple=2"),
        (["model.pattern=[softmax_attention]"], "model/mixer=longformer"),
        (["model.pattern=[softmax_attention]"], "+model/mixer@model.mixers.mine=linear_attention"),
        ([*SIDES, "model.encoder.num_layers=1", "model.decoder.num_layers=1"], "model.num_layers=2"),
    ],
)  # fmt: skip
def test_what_no_layer_of_the_run_has_is_refused_as_it_is_without_a_run(
    tmp_path: Path, before: list[str], typed: str
) -> None:
    run = recorded_run(tmp_path, *before)
    with pytest.raises(ConfigurationError, match="has no effect") as composed:
        compose_checked("train", [*OVERRIDES, *before, typed])
    with pytest.raises(ConfigurationError) as again:
        rerun(run, [typed])
    assert str(again.value) == str(composed.value)


@pytest.mark.slow
def test_a_pattern_takes_the_place_of_what_is_typed_before_it(run: Path) -> None:
    typed = ["model/mixer=linear_attention", "model.pattern=[softmax_attention]"]
    assert rerun(run, typed)["model"]["pattern"] == ["softmax_attention"]
    with pytest.raises(ConfigurationError, match="model/mixer=linear_attention has no effect"):
        rerun(run, typed[::-1])
