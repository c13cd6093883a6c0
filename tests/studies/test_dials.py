"""The settings of a dial: units, and what stays as it is."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest

from headtohead.components.feedforwards import inner_width
from headtohead.config.compose.composition import compose_checked
from headtohead.studies.matching.budgets import SizeAxisName
from headtohead.studies.matching.size_axes import CannotResizeError, axis_of, overrides_of, with_setting

SIDES = ["model=encoder_decoder", "task=seq2seq", "data=number_words", "model.num_layers=2"]


def config_of(*overrides: str) -> dict[str, Any]:
    return compose_checked("train", overrides)


def test_width_moves_in_heads_of_the_size_they_have() -> None:
    axis = axis_of("width", config_of("model.d_model=48", "model.num_heads=4"))
    assert axis.at(0) == {"model.d_model": 24, "model.num_heads": 2}
    assert axis.at(axis.start) == {"model.d_model": 48, "model.num_heads": 4}


def test_heads_grow_with_the_width_where_their_number_is_kept() -> None:
    axis = axis_of("head_size", config_of("model.d_model=48", "model.num_heads=3"))
    assert [axis.at(index) for index in (0, 1)] == [{"model.d_model": 24}, {"model.d_model": 48}]


def test_models_without_heads_have_no_head_size() -> None:
    config = config_of("model=cnn", "task=image_classification", "data=digits")
    assert axis_of("width", config).at(2) == {"model.d_model": 24}
    with pytest.raises(CannotResizeError, match="no heads"):
        axis_of("head_size", config)


def test_an_early_feedforward_changes_in_proportion() -> None:
    config = config_of(
        "model/feedforward=moe_shared", "model.feedforward.multiple=1", "model.num_early_layers=1",
        "+model/feedforward@model.early_feedforward=gelu",
    )  # fmt: skip
    setting = axis_of("feedforward", config).at(0)
    assert setting.keys() == {"model.feedforward.multiple", "model.early_feedforward.multiple"}
    assert setting["model.early_feedforward.multiple"] == 4 * setting["model.feedforward.multiple"]


@pytest.mark.slow
def test_feedforwards_in_turn_change_in_proportion_and_layers_in_whole_rounds_of_both_patterns() -> None:
    in_turn = ["model.feedforward_pattern=[gelu,moe]", "model.feedforwards.moe.multiple=2"]
    setting = axis_of("feedforward", config_of(*in_turn)).at(31)
    assert setting == {"model.feedforwards.gelu.multiple": 4.0, "model.feedforwards.moe.multiple": 2.0}
    both = config_of(*in_turn, "model.pattern=[mamba,mamba,lstm]", "model/position=none", "model.num_layers=12")
    assert [axis_of("depth", both).at(index)["model.num_layers"] for index in (0, 1)] == [6, 12]
    side = config_of(*SIDES, "model.decoder.feedforward_pattern=[relu,moe]")
    assert set(axis_of("feedforward", side).at(0)) == {
        "model.feedforward.multiple", "model.feedforwards.relu.multiple", "model.feedforwards.moe.multiple",
    }  # fmt: skip


@pytest.mark.parametrize(
    "overrides",
    [
        [*SIDES, "model.encoder.feedforward_pattern=[relu,moe]", "model.decoder.feedforward_pattern=[moe,swiglu]"],
        [*SIDES, "model.encoder.feedforward_pattern=[relu]", "model/feedforward@model.decoder.feedforward=gelu"],
        [*SIDES, "model.encoder.num_layers=3", "model.decoder.num_layers=5", "model.decoder.pattern=[lstm,gru]"],
        ["model.num_layers=2", "model.num_early_layers=2", "+model/feedforward@model.early_feedforward=gelu"],
        ["model.num_layers=5", "model.feedforward_pattern=[relu,moe,gelu]", "model/position=learned"],
    ],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("move", ["feedforward", "depth"])
def test_the_smallest_setting_is_one_that_may_be_typed(move: SizeAxisName, overrides: list[str]) -> None:
    setting = axis_of(move, config_of(*overrides)).at(0)
    changed = config_of(*overrides, *overrides_of(setting))
    assert {path: value_at(changed, path) for path in setting} == pytest.approx(setting)


def value_at(config: Any, path: str) -> Any:
    return reduce(lambda node, name: node[name], path.split("."), config)


def test_layers_are_no_fewer_than_early_ones() -> None:
    early = ["model.num_early_layers=3", "+model/feedforward@model.early_feedforward=gelu"]
    axis = axis_of("depth", config_of("model.num_layers=5", *early))
    assert axis.at(0) == {"model.num_layers": 3} and axis.at(axis.start) == {"model.num_layers": 5}
    assert axis.at(axis.count - 1) == axis_of("depth", config_of()).at(axis.count + 1)


@pytest.mark.parametrize("feedforward", ["gelu", "swiglu", "moe"])
def test_inner_widths_are_multiples_of_8(feedforward: str) -> None:
    config = config_of(f"model/feedforward={feedforward}", "model.d_model=72", "model.num_heads=2")
    axis, gated = axis_of("feedforward", config), config["model"]["feedforward"].get("two_thirds", False)
    for index in (0, 4, 22, 41):
        multiple = axis.at(index)["model.feedforward.multiple"]
        assert inner_width(72, multiple, two_thirds=gated) == 8 * (index + 1)


@pytest.mark.slow
def test_sides_change_their_inner_widths_in_proportion() -> None:
    config = config_of(
        *SIDES, "model/feedforward@model.decoder.feedforward=gelu", "model.decoder.feedforward.multiple=2"
    )
    setting = axis_of("feedforward", config).at(31)
    assert setting == {"model.feedforward.multiple": 4.0, "model.decoder.feedforward.multiple": 2.0}


@pytest.mark.parametrize(
    ("overrides", "first"),
    [
        (["model.num_layers=6"], {"model.num_layers": 1}),
        (["model.encoder.num_layers=4"], {"model.encoder.num_layers": 2, "model.num_layers": 1}),
        (["model.encoder.num_layers=6", "model.decoder.num_layers=3"],
         {"model.encoder.num_layers": 2, "model.decoder.num_layers": 1}),
    ],
)  # fmt: skip
def test_sides_keep_their_share_of_the_depth(overrides: list[str], first: dict[str, int]) -> None:
    assert axis_of("depth", config_of(*SIDES, *overrides)).at(0) == first


def test_settings_leave_the_configuration_they_change_as_it_was() -> None:
    config = config_of()
    changed = with_setting(config, {"model.feedforward.multiple": 3.0, "trainer.max_steps": 7})
    assert changed["model"]["feedforward"]["multiple"] == 3.0 and changed["trainer"]["max_steps"] == 7
    assert config["model"]["feedforward"]["multiple"] == 4.0 and config["trainer"]["max_steps"] == 1000
