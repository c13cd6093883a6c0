"""An override of a part that no layer is made of is refused, wherever sides and patterns bring their own parts."""

from __future__ import annotations

from typing import Any

import pytest

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.head_names import HEADS
from headtohead.components.block import Block
from headtohead.components.stack import Stack
from headtohead.config.build import make_model
from headtohead.config.compose.composition import compose_checked, composed_once
from headtohead.config.errors import ConfigurationError
from headtohead.config.instantiate import make
from task_cases import TASKS

AROUND = ["task=seq2seq", "data=reverse", "data.form=pairs", "model=encoder_decoder", "model/position=none"]
SIZES = ["model.vocab_size=11", "model.max_length=8", "model.max_target_length=8", "model.d_model=16"]
SIDES = ("encoder", "decoder")
CHOICES = {
    "mixer": ("linear_attention", "gated_linear"),
    "local": ("short_conv", "token_shift"),
    "position": ("learned", "sinusoidal"),
    "norm": ("rms_norm", "dynamic_tanh"),
    "residual": ("post", "sandwich"),
    "feedforward": ("swiglu", "moe"),
}
"""Two choices of each slot, neither of which is that of the model."""
OWN = {
    **{
        f"model/{slot}": [f"model/{slot}@model.{side}.{slot}={one[0]}" for side in SIDES]
        for slot, one in CHOICES.items()
    },
    "model.num_layers": [f"model.{side}.num_layers=3" for side in SIDES],
    "model.pattern": [f"model/mixer@model.{side}.mixer=linear_attention" for side in SIDES],
    "model.feedforward_pattern": [f"model/feedforward@model.{side}.feedforward=relu" for side in SIDES],
}
"""The overrides by which each side has its own, by those that both sides share otherwise."""
SHARED = {
    **{f"model/{slot}": f"model/{slot}={one[1]}" for slot, one in CHOICES.items()},
    "model.num_layers": "model.num_layers=4",
    "model.pattern": "model.pattern=[gated_linear]",
    "model.feedforward_pattern": "model.feedforward_pattern=[swiglu]",
}
IN_TURN = "model.feedforward_pattern=[relu,moe]"
WITHOUT_EARLY = ["model.num_early_layers=0", "model.early_feedforward=null"]
EARLY = "+model/feedforward@model.early_feedforward=swiglu"
COMPOSE = composed_once()


def layers(*overrides: str) -> list[Any]:
    """Return the class and settings of each part of the layers, by name."""
    config = COMPOSE((*AROUND, *SIZES, *overrides))
    model: Architecture = make(config["model"], head="language_model")
    blocks = [(name, block) for name, block in model.named_modules() if isinstance(block, Block)]
    parts = [(name, type(part).__name__) for above, block in blocks for name, part in block.named_modules(prefix=above)]
    others = [
        (name, type(part).__name__) for name, part in model.named_modules() if "position" in name or "norm" in name
    ]
    return [parts, others, [(name, *weight.shape) for name, weight in model.named_parameters()]]


@pytest.mark.sampled(12)
@pytest.mark.slow
@pytest.mark.parametrize("sides", [SIDES, SIDES[:1], SIDES[1:]], ids="-".join)
@pytest.mark.parametrize("field", sorted(SHARED))
def test_what_both_sides_share_is_refused_where_it_changes_no_layer(field: str, sides: tuple[str, ...]) -> None:
    own = [override for override in OWN[field] if any(f"model.{side}." in override for side in sides)]
    if sides != SIDES:
        assert layers(*own, SHARED[field]) != layers(*own)
        return
    both = r"has no effect, since .*model\.decoder\..* and model\.encoder\..*: set one of them, or leave it out"
    with pytest.raises(ConfigurationError, match=both) as refusal:
        COMPOSE((*AROUND, *own, SHARED[field]))
    assert "their feedforward from" not in str(refusal.value), "a slot goes by its noun"
    assert layers(SHARED[field], *own) == layers(*own), "what comes later takes its place, as an arm that of its study"


@pytest.mark.parametrize(
    ("overrides", "refused"),
    [
        (["model.encoder.pattern=[lstm]", "model/mixer@model.encoder.mixer=gated_linear"], 1),
        (["model.encoder.pattern=[lstm]", "model.decoder.pattern=[lstm]", "model/mixer=gated_linear"], 2),
        (["+model/mixer@model.mixers.mine=sliding_window", "model.mixers.mine.window=4"], 1),
        (["model.pattern=[lstm]", "+model/mixer@model.mixers.mine=sliding_window"], 1),
        ([EARLY, "model.num_early_layers=1", *OWN["model/feedforward"]], None),
        ([*OWN["model/feedforward"], EARLY, "model.num_early_layers=1"], 3),
        (["model/mixer@model.encoder.mixer=linear_attention", "model.encoder.pattern=[lstm]"], None),
        (["model.feedforward_pattern=[relu]", "model/feedforward=swiglu"], 1),
        (["model.feedforward_pattern=[relu]", "+model/feedforward@model.feedforwards.mine=swiglu"], 1),
        (["model.feedforward_pattern=[relu]", EARLY, "model.num_early_layers=1"], 2),
        (["model.encoder.pattern=[lstm]", "model.encoder.pattern=null", "model/mixer=gated_linear"], None),
        ([EARLY, "model.num_early_layers=1", IN_TURN, *WITHOUT_EARLY], None),
        ([IN_TURN, *WITHOUT_EARLY], None),
        ([IN_TURN, "model.feedforward.multiple=2", "model.feedforwards.moe.num_experts=4"], 1),
        ([IN_TURN, "model/feedforward=relu", "model.feedforward.multiple=2"], 2),
        ([IN_TURN, "model/feedforward=relu", "+model/feedforward@model.feedforwards.mine=gelu",
          "model.encoder.feedforward_pattern=[mine]"], None),
        ([IN_TURN, "model.feedforward.multiple=2", "+model/feedforward@model.feedforwards.moe=moe_shared"], 1),
        (["model.pattern=[lstm]", "model.mixer.num_kv_heads=null"], 1),
        (["model.feedforward.multiple=2", IN_TURN], None),
        (["model.num_layers=4", *OWN["model.num_layers"]], None),
    ],
)  # fmt: skip
def test_patterns_and_named_mixers(overrides: list[str], refused: int | None) -> None:
    if refused is None:
        assert compose_checked("train", [*AROUND, *overrides])
        return
    with pytest.raises(ConfigurationError) as refusal:
        compose_checked("train", [*AROUND, *overrides])
    assert str(refusal.value).startswith(f"{overrides[refused]} has no effect")


@pytest.mark.slow
def test_a_depth_that_a_pattern_does_not_fit_is_refused_by_the_side_that_has_it() -> None:
    with pytest.raises(ConfigurationError, match=r"model\.decoder\.pattern holds 3 layers and model\.num_layers=2"):
        compose_checked("train", [*AROUND, "model.decoder.pattern=[lstm,gru,lstm]"])
    with pytest.raises(ConfigurationError, match=r"model\.pattern holds 2 layers and model\.encoder\.num_layers=1"):
        compose_checked("train", [*AROUND, "model.pattern=[lstm,gru]", "model.encoder.num_layers=1"])


@pytest.mark.parametrize("task", sorted(TASKS))
def test_a_head_says_whether_it_has_layers_of_its_own(task: str) -> None:
    head = TASKS[task].model().head
    assert head.has_stack is any(isinstance(part, Stack) for part in head.modules())


IMAGES = ("task=masked_image_modeling", "data=digits", "model=vision_transformer", "model.image_shape=[1,8,8]")
HEADS_WITH_STACK = {
    "pixel_decoder": IMAGES,
    "replaced_token_detector": ("task=replaced_token_detection", "model=encoder_only", *SIZES[:2], "model.d_model=32"),
}


def weights(*overrides: str) -> list[Any]:
    """Return the shapes of all weights by name, in the model and its head."""
    model = make_model(compose_checked("train", overrides), "meta")
    return [(name, *weight.shape) for name, weight in model.named_parameters()]


@pytest.mark.slow
@pytest.mark.parametrize("head", sorted(HEADS_WITH_STACK))
@pytest.mark.parametrize(
    ("pattern", "typed"),
    [
        ("model.pattern=[softmax_attention]", "model/mixer=fourier"),
        ("model.pattern=[softmax_attention]", "model.mixer.num_kv_heads=1"),
        ("model.feedforward_pattern=[gelu,swiglu]", "model/feedforward=moe"),
        ("model.feedforward_pattern=[gelu,swiglu]", "model.feedforward.multiple=2"),
    ],
)
def test_layers_of_a_head_have_the_shared_parts_beside_a_pattern(head: str, pattern: str, typed: str) -> None:
    around = (*HEADS_WITH_STACK[head], "model/position=none", "model.num_layers=2", "model.num_heads=2", pattern)
    assert head in HEADS
    assert weights(*around, typed) != weights(*around)
    with pytest.raises(ConfigurationError, match="has no effect"):
        compose_checked("train", [*around, "+model/mixer@model.mixers.mine=sliding_window"])


def test_a_mixer_of_a_head_is_refused_where_it_cannot_see_both_ways() -> None:
    around = [*HEADS_WITH_STACK["replaced_token_detector"], "model/position=none", "model.pattern=[softmax_attention]"]
    with pytest.raises(ConfigurationError, match="model/mixer=stick_breaking is causal only"):
        compose_checked("train", [*around, "model/mixer=stick_breaking"])
