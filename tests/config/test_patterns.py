"""Layer patterns from the command line to the layers of a model."""

from __future__ import annotations

import re

import pytest

from headtohead.components.block import Block
from headtohead.components.mixers.attention.sliding_window import SlidingWindow
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention
from headtohead.components.mixers.recurrent.torch_recurrence import Lstm
from headtohead.config.build import build_model
from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.config.unchecked_classes import unchecked_sentences
from headtohead.errors import UsageError


def mixers(*overrides: str) -> list[object]:
    config = compose_checked("train", ["model.num_layers=5", "data.num_train=500", *overrides])
    model = build_model(config, device="meta")
    return [block.mixer for block in model.modules() if isinstance(block, Block)]


def test_a_pattern_is_repeated_over_the_layers() -> None:
    result = mixers("model.pattern=[lstm,lstm,softmax_attention]")
    assert list(map(type, result)) == [Lstm, Lstm, SoftmaxAttention, Lstm, Lstm]


def test_two_mixers_of_one_kind_may_differ_in_their_options() -> None:
    result = mixers(
        "model.pattern=[near,far]",
        "+model/mixer@model.mixers.near=sliding_window",
        "+model/mixer@model.mixers.far=sliding_window",
        "model.mixers.near.window=4",
        "model.mixers.far.window=16",
    )
    assert [mixer.window for mixer in result if isinstance(mixer, SlidingWindow)] == [4, 16, 4, 16, 4]


def test_the_sides_of_an_encoder_decoder_have_patterns_of_their_own() -> None:
    result = mixers(
        "task=seq2seq", "data=reverse", "data.form=pairs", "model=encoder_decoder", "model.decoder.pattern=[lstm]"
    )
    assert list(map(type, result)) == [SoftmaxAttention] * 5 + [Lstm] * 5


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["model.pattern=[lstm,softmax]"], "model.pattern names softmax, which is not a mixer"),
        (["model.pattern=[lstm,lstm]"], "model/position=rotary rotates queries and keys"),
        (["model.pattern=[lstm,softmax_attention]", "model/position=shaw"], "model/position=shaw biases"),
        (
            ["model=encoder_only", "task=masked_lm", "model.mixers.lstm.hidden=3"],
            "model.mixers={lstm: {hidden: 3}} is refused",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(overrides: list[str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(sentence)):
        compose_checked("train", overrides)


def test_a_pattern_longer_than_the_model_is_refused() -> None:
    with pytest.raises(ValueError, match=r"holds 6 layers and model\.num_layers=5"):
        mixers("model.pattern=[lstm,lstm,lstm,lstm,lstm,softmax_attention]")


EARLY = [
    "model/feedforward=moe_shared",
    "model.num_early_layers=2",
    "+model/feedforward@model.early_feedforward=swiglu",
]


def feedforwards(*overrides: str) -> list[str]:
    model = build_model(
        compose_checked("train", ["model.num_layers=3", "data.num_train=500", *overrides]), device="meta"
    )
    return [type(block.feedforward).__name__ for block in model.modules() if isinstance(block, Block)]


def test_the_first_layers_may_have_another_feedforward() -> None:
    assert feedforwards(*EARLY) == ["DenseFeedForward", "DenseFeedForward", "SharedExperts"]


def test_a_feedforward_that_no_layer_has_is_judged_by_no_rule() -> None:
    split = ["model/feedforward=moe", "trainer.accumulate=2", "model.num_early_layers=3"]
    assert set(feedforwards(*split, EARLY[2])) == {"DenseFeedForward"}


def test_a_side_with_a_feedforward_of_its_own_has_it_in_all_layers() -> None:
    sides = ["task=seq2seq", "data=reverse", "data.form=pairs", "model=encoder_decoder"]
    result = feedforwards(*sides, *EARLY, "model/feedforward@model.decoder.feedforward=rwkv_channel_mix")
    assert result == ["DenseFeedForward", "DenseFeedForward", "SharedExperts", *["RwkvChannelMix"] * 3]


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            ["model.num_early_layers=2"],
            "model.num_early_layers=2 says how many layers have a feed-forward of their own",
        ),
        ([*EARLY, "model.num_early_layers=4"], "model.num_early_layers=4 is more than the 3 layers that there are"),
        (
            [
                *EARLY[:2],
                "+model/feedforward@model.early_feedforward=moe",
                "model.early_feedforward.experts_per_token=1",
            ],
            "model.early_feedforward.experts_per_token=1 with renormalise=true gives every token's expert the weight 1",
        ),
        (
            [*EARLY[1:2], "+model/feedforward@model.early_feedforward=moe", "parametrisation=mup"],
            "choose model/feedforward@model.early_feedforward=gelu",
        ),
        (
            [*EARLY[1:], "task=masked_lm", "model=encoder_only", "model.early_feedforward.d_model=3"],
            "model.early_feedforward.d_model",
        ),
    ],
)
def test_early_layers_that_cannot_be_are_refused_by_name(overrides: list[str], sentence: str) -> None:
    with pytest.raises((ConfigurationError, UsageError), match=re.escape(sentence)):
        feedforwards(*overrides)


def test_a_class_of_ones_own_is_mentioned_wherever_it_stands() -> None:
    own = {"early_feedforward": {"_target_": "json.JSONEncoder"}, "mixers": {"near": {"_target_": "json.JSONDecoder"}}}
    sentences = list(unchecked_sentences({"model": own}))
    assert [sentence.partition(" ")[0] for sentence in sentences] == [
        "model.early_feedforward=json.JSONEncoder",
        "model.mixers.near=json.JSONDecoder",
    ]
