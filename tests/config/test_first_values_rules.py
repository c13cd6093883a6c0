"""Mixers that mix values of layers are refused exactly where the stack that is built has nothing for them to mix."""

from __future__ import annotations

import re

import pytest
import torch

from headtohead.components.first_values import MixesFirstValues
from headtohead.components.stack import Stack
from headtohead.config.compose.choices import Choice, choices
from headtohead.config.compose.composition import compose, compose_checked
from headtohead.config.errors import ConfigurationError, show
from headtohead.config.instantiate import make, target_of
from headtohead.config.schema.source_code import class_value
from headtohead.errors import UsageError

TINY = ["model.d_model=8", "model.num_heads=2", "model.vocab_size=9", "model.max_length=8", "model/position=none"]
PAIRS = ["task=seq2seq", "data=reverse", "data.form=pairs", "model=encoder_decoder", "model.max_target_length=8"]
TWO = [f"+model/mixer@model.mixers.{name}=value_residual" for name in ("a", "b")]
REFUSED = {
    "alone": ["model/mixer=value_residual", "model.num_layers=1"],
    "alone, passed again": ["model/mixer=value_residual", "model.num_layers=1", "model.loops=3"],
    "before the pattern repeats": ["model.pattern=[value_residual,mamba,mamba]", "model.num_layers=3"],
    "under one name of its own": ["model.pattern=[a,lstm,lstm]", *TWO[:1], "model.num_layers=3"],
    "with one layer on one side": [*PAIRS, "model/mixer=value_residual", "model.decoder.num_layers=1"],
    "in a pattern of one side": [*PAIRS, "model.encoder.pattern=[lstm,value_residual]", "model.num_layers=3"],
}
ACCEPTED = {
    "in both layers": ["model/mixer=value_residual", "model.num_layers=2"],
    "where it repeats": ["model.pattern=[value_residual,mamba,mamba]", "model.num_layers=4"],
    "under two names": ["model.pattern=[a,lstm,b]", *TWO, "model.num_layers=3"],
    "in a longer pattern of one side": [*PAIRS, "model.encoder.pattern=[lstm,value_residual]", "model.num_layers=4"],
}


def has_a_lone_layer(overrides: list[str]) -> bool:
    """Return whether a stack of the model has a mixer of the kind and none that reads it."""
    with torch.device("meta"):
        model = make(compose("train", overrides)["model"], head="language_model")
    stacks = [part for part in model.modules() if isinstance(part, Stack)]
    return any(
        stack.first_values_layer is None and any(isinstance(part, MixesFirstValues) for part in stack.modules())
        for stack in stacks
    )


@pytest.mark.slow
@pytest.mark.parametrize("case", ACCEPTED)
def test_two_layers_of_a_stack_are_enough(case: str) -> None:
    overrides = [*TINY, *ACCEPTED[case]]
    compose_checked("train", overrides)
    assert not has_a_lone_layer(overrides)


@pytest.mark.parametrize("case", REFUSED)
def test_a_layer_without_another_is_refused_with_what_makes_one(case: str) -> None:
    overrides = [*TINY, *REFUSED[case]]
    assert has_a_lone_layer(overrides)
    with pytest.raises(ConfigurationError, match="there is one: give ") as refused:
        compose_checked("train", overrides)
    fix = str(refused.value).partition(": give ")[2].partition(",")[0]
    mended = [*(one for one in overrides if one.partition("=")[0] != fix.partition("=")[0]), fix]
    compose_checked("train", mended)
    assert not has_a_lone_layer(mended)


@pytest.mark.parametrize("second", ["num_kv_heads=1", "num_kv_heads=2", "head_width=4", "head_width=6"])
@pytest.mark.parametrize("first", ["num_kv_heads=1", "num_kv_heads=null", "head_width=6"])
def test_values_of_two_shapes_are_refused_by_the_fields_that_make_them(first: str, second: str) -> None:
    apart = [*TINY, "model.pattern=[a,b]", *TWO, f"model.mixers.a.{first}", f"model.mixers.b.{second}"]
    config = compose("train", apart)
    try:
        with torch.device("meta"):
            make(config["model"], head="language_model")
    except UsageError:
        with pytest.raises(ConfigurationError, match=r"two shapes, .*: give both the same") as refused:
            compose_checked("train", apart)
        values = re.findall(r"model\.mixers\.([ab])\.(\w+)=(\w+)", str(refused.value))
        assert [name for name, _, _ in values] == ["a", "b"]
        assert all(show(config["model"]["mixers"][name][field]) == value for name, field, value in values)
    else:
        compose_checked("train", apart)


@pytest.mark.parametrize("mixer", choices("model/mixer"), ids=lambda mixer: str(mixer.name))
def test_a_mixer_that_mixes_values_of_layers_says_so(mixer: Choice) -> None:
    says_so = class_value(mixer.target, "reads_layers") is not None
    assert says_so == issubclass(target_of({"_target_": mixer.target}), MixesFirstValues)
