"""Maximal update is refused, with reason and way out, where no rule is known; everywhere else it is taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from headtohead.config.compose.choices import choices
from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.from_weights import check_start
from headtohead.config.rules import compatibility
from headtohead.config.schema.source_code import class_value
from headtohead.data.data_source import DataSpec
from headtohead.records.record import RunRecord
from headtohead.records.run_folder import RunFolder
from headtohead.studies.matching.size_axes import axis_of, with_setting

MUP = "parametrisation=mup"
IMAGES = ["task=image_classification", "data=digits"]
TRANSLATION = ["task=seq2seq", "data=number_words", "model=encoder_decoder", "model/initialisation=gpt2"]
SLOTS = ("mixer", "local", "cross", "position", "norm", "residual", "feedforward")
REFUSED = {
    "model=recurrent": ["cannot scale model/mixer=lstm", "no rule", "softmax_attention", "parametrisation=standard"],
    "model/mixer=mamba model/position=none": ["cannot scale model/mixer=mamba", "openreview.net"],
    "model/mixer=linear_attention model/position=none": ["cannot scale model/mixer=linear_attention", "no rule"],
    "model/mixer=low_rank": ["cannot scale model/mixer=low_rank", "of a rank that does not grow"],
    "model/feedforward=moe": ["cannot scale model/feedforward=moe", "router", "model/feedforward=gelu"],
    "model/feedforward=canon": ["cannot scale model/feedforward=canon", "convolution", "model/feedforward=gelu"],
    "model/feedforward=xielu": ["cannot scale model/feedforward=xielu", "slopes", "model/feedforward=gelu"],
    "model/position=t5_bias": ["cannot scale model/position=t5_bias"],
    "model/position=shaw": ["cannot scale model/position=shaw"],
    "model/norm=dynamic_erf": ["cannot scale model/norm=dynamic_erf", "model/norm=layer_norm"],
    "model/position=kerple": ["cannot scale model/position=kerple"],
    "model/position=fire": ["cannot scale model/position=fire"],
    "model/norm=dynamic_tanh": ["cannot scale model/norm=dynamic_tanh", "model/norm=layer_norm"],
    "model/residual=rezero": ["cannot scale model/residual=rezero", "model/residual=pre"],
    "model/local=short_conv": ["cannot scale model/local=short_conv", "model/local=none"],
    "model/initialisation=xavier": ["model/initialisation=xavier", "model/initialisation=gpt2"],
    "model.mixer.num_kv_heads=1": ["model.mixer.num_kv_heads=1", "leave it at null"],
    "model.mixer.scale=0.5": ["model.mixer.scale=0.5", "leave it at null"],
    "model/position=none model.mixer.head_width=8": ["model.mixer.head_width=8", "leave it at null"],
    "model.mixer.qk_norm=true": ["model.mixer.qk_norm=true", "leave it at false"],
    "model.mixer.score_cap=50": ["model.mixer.score_cap=50", "leave it at null"],
    "model.logit_cap=30": ["model.logit_cap=30", "set model.logit_cap=null"],
    "model.logit_scale=0.1": ["model.logit_scale=0.1", "set model.logit_scale=null"],
    "model.scale_embedding=true": ["model.scale_embedding=true", "set model.scale_embedding=false"],
    "optimizer=adam optimizer.weight_decay=0.1": ["optimizer.weight_decay=0.1", "optimizer=adamw"],
    "optimizer._target_=torch.optim.Adagrad": ["no published rule", "adamw, adam, lion, sgd, muon"],
    "model.num_heads=1": ["parametrisation.base_head_width=16 is not that of this model", "base_head_width=64"],
    "parametrisation.base_head_width=48": ["does not divide parametrisation.base_width=64"],
    "parametrisation.base_width=0": ["parametrisation.base_width=0", "at least 1"],
}


def refusal(overrides: list[str]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        compose_checked("train", [MUP, *overrides])
    return str(caught.value)


@pytest.mark.parametrize("overrides", REFUSED)
def test_what_no_rule_is_known_for_is_refused_with_reason_and_way_out(overrides: str) -> None:
    if overrides.startswith("optimizer._target_"):
        message = refusal(["~optimizer", "+optimizer._target_=torch.optim.Adagrad", "+optimizer._partial_=true"])
    else:
        message = refusal(overrides.split())
    for words in REFUSED[overrides]:
        assert words in message
    assert "\n" not in message


def test_published_weights_are_refused() -> None:
    config = compose_checked("train", [MUP])
    with pytest.raises(ConfigurationError, match="init_from=hf:gpt2 has weights made for multipliers other than"):
        compatibility.check({**config, "init_from": "hf:gpt2"})


@pytest.mark.parametrize(("before", "now"), [(MUP, "parametrisation=standard"), ("parametrisation=standard", MUP)])
def test_a_run_starts_from_one_of_the_same_parametrisation_alone(before: str, now: str, tmp_path: Path) -> None:
    first, config = (compose_checked("train", [choice]) for choice in (before, now))
    run = RunFolder.create_at(tmp_path / "run")
    run.write_record(RunRecord(id="run", name="run", group="g", seed=0, config=first))
    spec = DataSpec(kind="language")
    with pytest.raises(ConfigurationError, match="whose multipliers are not part of its weights"):
        check_start({**config, "init_from": str(run.path)}, spec)
    check_start({**first, "init_from": str(run.path)}, spec)


@pytest.mark.parametrize("model", ["cnn", "resnet"])
def test_convolutions_are_refused(model: str) -> None:
    assert "convolutions need rules of their own" in refusal([f"model={model}", *IMAGES])


@pytest.mark.slow
def test_each_side_and_the_cross_mixer_are_asked_for_their_rules() -> None:
    own = [*TRANSLATION, "model.scale_embedding=false"]
    assert "model/norm@model.decoder.norm=dynamic_tanh" in refusal([*own, "model/norm@model.decoder.norm=dynamic_tanh"])
    assert "model/cross=bahdanau" in refusal([*own, "model/cross=bahdanau"])
    assert "model.cross.scale=0.5" in refusal([*own, "model.cross.scale=0.5"])
    compose_checked("train", [MUP, *own])


@pytest.mark.slow
def test_every_mixer_of_a_pattern_is_asked() -> None:
    provided = ["model.pattern=[softmax_attention,mamba]", "model/position=none"]
    assert "mamba: state-space models" in refusal(provided)


@pytest.mark.parametrize(
    "overrides",
    ["model/mixer=sliding_window", "model/norm=rms_norm", "model/residual=post", "model/feedforward=swiglu",
     "model/position=learned", "model/position=alibi", "optimizer=muon", "optimizer=sgd", "optimizer=lion",
     "model.tie_weights=false", "model.d_model=256 model.num_heads=4", "parametrisation.base_width=128"],
)  # fmt: skip
def test_what_a_rule_is_known_for_is_taken(overrides: str) -> None:
    compose_checked("train", [MUP, *overrides.split()])


def test_every_part_says_whether_a_rule_is_known() -> None:
    for slot in SLOTS:
        for choice in choices(f"model/{slot}"):
            assert class_value(choice.target, "no_mup_rule") is not None, choice
    for choice in choices("model"):
        assert class_value(choice.target, "no_mup_rule") is not None, choice


def test_the_standard_refuses_nothing_of_it() -> None:
    compose_checked("train", ["model/mixer=mamba", "model/position=none", "optimizer=adam", "optimizer.weight_decay=1"])


def test_dials_that_change_the_width_leave_the_base_where_it_was() -> None:
    config = compose_checked("train", [MUP])
    for move in ("width", "head_size"):
        axis = axis_of(move, config)
        moved = with_setting(config, axis.at(axis.start + 2))
        assert moved["model"]["d_model"] > config["model"]["d_model"]
        assert moved["parametrisation"] == config["parametrisation"]
