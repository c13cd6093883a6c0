"""Hybrids as their files list them: which layers have attention, and which have experts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headtohead as h2h
from headtohead.config.errors import ConfigurationError
from headtohead.config.origins.to_published import write_hub
from headtohead.pretrained.kimi_linear import KimiLinearFamily
from headtohead.pretrained.lfm2 import Lfm2Family
from headtohead.pretrained.mamba_hybrids import JambaFamily
from headtohead.pretrained.model_family import InexpressibleError
from pretrained.test_written_for_the_hub import FORMS, SIZE, drawn, read_back


@pytest.mark.parametrize(
    ("kinds", "field"),
    [
        ("mamba,softmax_attention,softmax_attention,mamba", None),
        ("softmax_attention,softmax_attention,mamba,mamba", None),
        ("mamba,softmax_attention,mamba,softmax_attention", (2, 1)),
        ("mamba,mamba,mamba,softmax_attention", (4, 3)),
        ("mamba", (5, 4)),
    ],
)
def test_jamba_is_written_where_attention_follows_a_period(kinds: str, field: tuple[int, int] | None) -> None:
    names = kinds.split(",")
    layers = ["model.num_layers=4", f"model.pattern=[{kinds}]"]
    config = h2h.compose("train", [*SIZE, *FORMS["jamba"], *layers])["model"]
    if field is None:
        with pytest.raises(InexpressibleError, match=r"is in the layers \[.*\] of model\.pattern"):
            JambaFamily().hub_config(config)
        return
    written = JambaFamily().hub_config(config)
    assert (written["attn_layer_period"], written["attn_layer_offset"]) == field
    attention = [kind == "full_attention" for kind in JambaFamily().layer_kinds(JambaFamily().complete(written))]
    assert attention == [names[layer % len(names)] == "softmax_attention" for layer in range(4)]


def test_jamba_as_published_has_experts_in_every_second_layer_and_may_have_none() -> None:
    published: dict[str, Any] = {
        "model_type": "jamba", "hidden_size": 32, "num_hidden_layers": 8, "intermediate_size": 64,
    }  # fmt: skip
    family = JambaFamily()
    overrides = family.feedforward_overrides(family.complete(published))
    assert overrides[0] == "model.feedforward_pattern=[swiglu,moe]"
    assert "model.feedforwards.moe.num_experts=16" in overrides
    alone = family.feedforward_overrides(family.complete({**published, "num_experts": 1}))
    assert alone[0] == "model/feedforward=swiglu"


def mixing(form: str) -> list[str]:
    """Return the overrides of a form but for its feed-forward."""
    return [field for field in FORMS[form] if "feedforward" not in field]


def in_turn(pattern: str, *fields: str) -> list[str]:
    """Return the overrides of a gated feed-forward and of experts that follow a pattern."""
    alike = ("activation=silu", "bias=false", "multiple=2", "two_thirds=false", *fields)
    experts = ("num_experts=3", "gated=true", "renormalise=false")
    return [
        "+model/feedforward@model.feedforwards.swiglu=swiglu", "+model/feedforward@model.feedforwards.moe=moe",
        *(f"model.feedforwards.{name}.{field}" for name in ("swiglu", "moe") for field in alike),
        *(f"model.feedforwards.moe.{field}" for field in experts), f"model.feedforward_pattern=[{pattern}]",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("form", ["jamba", "qwen3_moe"])
@pytest.mark.parametrize("pattern", ["swiglu,moe", "moe,swiglu,swiglu"])
def test_experts_in_some_layers_are_read_back_with_equal_logits(form: str, pattern: str, tmp_path: Path) -> None:
    config = h2h.compose("train", [*SIZE, *mixing(form), "model.num_layers=4", *in_turn(pattern)])
    read_back(form, drawn(config), config, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["jamba", "qwen3_moe"])
def test_published_experts_in_some_layers_may_be_trained_under_another_balance(form: str, tmp_path: Path) -> None:
    config = h2h.compose("train", [*SIZE, *mixing(form), *in_turn("swiglu,moe")])
    write_hub(drawn(config), config, tmp_path)
    source = [f"init_from=hf:{tmp_path}", "data.context_length=8"]
    again = h2h.compose("train", [*source, "model.feedforwards.moe.balance=micro_batch"])
    assert again["model"]["feedforward_pattern"] == ["swiglu", "moe"]
    with pytest.raises(ConfigurationError, match=r"model\.feedforwards\.moe\.num_experts=2 contradicts init_from"):
        h2h.compose("train", [*source, "model.feedforwards.moe.num_experts=2"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            "model.feedforwards.moe.multiple=3",
            "dense feed-forwards are 64 wide and experts 96, and jamba has one width",
        ),
        ("model.feedforwards.moe.activation=relu", r"feedforwards\.moe\.activation=relu .* supports only silu"),
        ("model.feedforward_pattern=[moe,moe,swiglu]", r"in the layers \[0, 1, 3\] of model\.feedforward_pattern"),
        ("model.feedforwards.swiglu.gated=false", r"feedforwards\.swiglu\.gated=False .* supports only True"),
    ],
)
def test_feedforwards_that_jamba_has_no_field_for_are_refused_with_ours(change: str, message: str) -> None:
    config = h2h.compose("train", [*SIZE, *mixing("jamba"), "model.num_layers=4", *in_turn("swiglu,moe"), change])
    with pytest.raises(InexpressibleError, match=message):
        JambaFamily().hub_config(config["model"])


@pytest.mark.slow
def test_a_form_without_feedforwards_in_turn_refuses_them() -> None:
    config = h2h.compose("train", [*SIZE, *mixing("lfm2"), "model.feedforward_pattern=[swiglu,gelu]"])
    with pytest.raises(InexpressibleError, match=r"feedforward_pattern=\['swiglu', 'gelu'\] .* supports only null"):
        Lfm2Family().hub_config(config["model"])


LISTED = {"full_attn_layers": [3], "kda_layers": [1, 2, 4]}
KIMI: dict[str, Any] = {
    "model_type": "kimi_linear", "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 2,
    "num_key_value_heads": 2, "head_dim": 72, "linear_attn_config": {**LISTED, "head_dim": 8, "num_heads": 3},
}  # fmt: skip


def test_kimi_linear_counts_the_layers_of_its_published_lists_from_one() -> None:
    family = KimiLinearFamily()
    hub = family.complete(KIMI)
    assert family.layer_kinds(hub) == ["linear_attention"] * 2 + ["full_attention", "linear_attention"]
    assert (hub["linear_head_dim"], hub["linear_num_heads"], hub["linear_conv_kernel_dim"]) == (8, 3, 4)


@pytest.mark.parametrize("field", ["num_key_value_heads", "qk_head_dim"])
def test_kimi_linear_takes_null_for_what_follows_from_other_fields(field: str) -> None:
    family = KimiLinearFamily()
    assert family.mixer_overrides(family.complete({**KIMI, field: None})) == family.mixer_overrides(
        family.complete(KIMI)
    )


@pytest.mark.parametrize("layers", [[1, 2], [1, 2, 3, 4], [0, 1, 2]])
def test_kimi_linear_is_refused_where_a_layer_is_listed_twice_or_not_at_all(layers: list[int]) -> None:
    changed = {**KIMI, "linear_attn_config": {**LISTED, "kda_layers": layers}}
    with pytest.raises(InexpressibleError, match="must name each of its 4 layers once"):
        KimiLinearFamily().layer_kinds(KimiLinearFamily().complete(changed))
