"""Layer patterns from the command line to the layers of a model."""

from __future__ import annotations

import re

import pytest

from headtohead.components.block import Block
from headtohead.components.mixers.attention.sliding_window import SlidingWindow
from headtohead.components.mixers.attention.softmax_attention import SoftmaxAttention
from headtohead.components.mixers.recurrent.torch_recurrence import Lstm
from headtohead.config.build import build_model
from headtohead.config.compose.composition import compose, compose_checked
from headtohead.config.errors import ConfigurationError
from headtohead.config.layer_check import layers_error
from headtohead.config.rules import compatibility
from headtohead.config.rules.config_view import ConfigView
from headtohead.config.unchecked_classes import unchecked_sentences


def mixers(*overrides: str) -> list[object]:
    config = compose_checked("train", ["model.num_layers=5", "data.num_train=500", *overrides])
    model = build_model(config, device="meta")
    return [block.mixer for block in model.modules() if isinstance(block, Block)]


@pytest.mark.slow
def test_a_pattern_is_repeated_over_the_layers() -> None:
    result = mixers("model.pattern=[lstm,lstm,softmax_attention]")
    assert list(map(type, result)) == [Lstm, Lstm, SoftmaxAttention, Lstm, Lstm]


@pytest.mark.parametrize("typed", ["model/mixer=linear_attention", "model.mixer.bias=false"])
@pytest.mark.parametrize("source", ["model=jamba", "model.pattern=[mamba]"])
def test_a_mixer_that_no_layer_has_is_refused(source: str, typed: str) -> None:
    """An arm that sets one would be its baseline under another name."""
    fitting = [source, "model/position=none", typed]
    with pytest.raises(ConfigurationError, match=r"has no effect, since model\.pattern .*model\.mixers\.mamba"):
        compose_checked("train", fitting)


@pytest.mark.slow
def test_a_pattern_takes_the_place_of_a_mixer_and_a_mixer_that_of_no_pattern() -> None:
    assert set(map(type, mixers("model/mixer=sliding_window", "model.pattern=[lstm]", "model/position=none"))) == {Lstm}
    replaced = ["model=jamba", "model.pattern=null", "model/mixer=lstm"]
    assert set(map(type, mixers(*replaced, "model.d_model=16", "model.num_heads=2"))) == {Lstm}


@pytest.mark.slow
def test_two_mixers_of_one_kind_may_differ_in_their_options() -> None:
    result = mixers(
        "model.pattern=[near,far]",
        "+model/mixer@model.mixers.near=sliding_window",
        "+model/mixer@model.mixers.far=sliding_window",
        "model.mixers.near.window=4",
        "model.mixers.far.window=16",
    )
    assert [mixer.window for mixer in result if isinstance(mixer, SlidingWindow)] == [4, 16, 4, 16, 4]


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_first_layers_may_have_another_feedforward() -> None:
    assert feedforwards(*EARLY) == ["DenseFeedForward", "DenseFeedForward", "SharedExperts"]


def test_a_feedforward_that_no_layer_has_is_judged_by_no_rule() -> None:
    split = ["model/feedforward=moe", "trainer.accumulate=2", "model.num_early_layers=3"]
    assert set(feedforwards(*split, EARLY[2])) == {"DenseFeedForward"}


@pytest.mark.slow
def test_a_side_with_a_feedforward_of_its_own_has_it_in_all_layers() -> None:
    result = feedforwards(*SIDES, *EARLY, "model/feedforward@model.decoder.feedforward=rwkv_channel_mix")
    assert result == ["DenseFeedForward", "DenseFeedForward", "SharedExperts", *["RwkvChannelMix"] * 3]


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            ["model.num_early_layers=2"],
            "model.num_early_layers=2 says how many layers have a feed-forward of their own",
        ),
        ([*EARLY, "model.num_early_layers=4"], "4 is more than the 3 layers that there are, by model.num_layers:"),
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
    with pytest.raises(ConfigurationError, match=re.escape(sentence)):
        compose_checked("train", ["model.num_layers=3", *overrides])


IN_TURN = "model.feedforward_pattern=[swiglu,moe]"
SIDES = ["task=seq2seq", "data=reverse", "data.form=pairs", "model=encoder_decoder"]


@pytest.mark.slow
def test_a_pattern_of_feedforwards_is_repeated_over_the_layers() -> None:
    assert feedforwards(IN_TURN) == ["DenseFeedForward", "MixtureOfExperts", "DenseFeedForward"]
    wide = ["+model/feedforward@model.feedforwards.wide=gelu", "model.feedforwards.wide.multiple=8"]
    assert feedforwards("model.feedforward_pattern=[moe,wide,wide]", *wide)[1:] == ["DenseFeedForward"] * 2


@pytest.mark.slow
def test_a_side_has_a_pattern_of_feedforwards_of_its_own_or_one_feedforward() -> None:
    own = feedforwards(*SIDES, "model.decoder.feedforward_pattern=[moe,relu]")
    assert own == [*["DenseFeedForward"] * 3, "MixtureOfExperts", "DenseFeedForward", "MixtureOfExperts"]
    alike = feedforwards(*SIDES, IN_TURN, "model/feedforward@model.decoder.feedforward=rwkv_channel_mix")
    assert alike == ["DenseFeedForward", "MixtureOfExperts", "DenseFeedForward", *["RwkvChannelMix"] * 3]
    early = feedforwards(*SIDES, *EARLY, "model.decoder.feedforward_pattern=[relu,moe]")
    assert early == [
        *["DenseFeedForward"] * 2,
        "SharedExperts",
        "DenseFeedForward",
        "MixtureOfExperts",
        "DenseFeedForward",
    ]


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["model.feedforward_pattern=[swigl]"], "model.feedforward_pattern names swigl, which is not a feed-forward"),
        ([IN_TURN, "model/feedforward=moe"], "model/feedforward=moe has no effect, since model.feedforward_pattern"),
        ([IN_TURN, "model.feedforward.multiple=2"], "set the fields of model.feedforwards.moe"),
        ([IN_TURN, "model.feedforwards.moe.experts_per_token=1"], "set model.feedforwards.moe.renormalise=false"),
        ([IN_TURN, "trainer.accumulate=2"], "or model.feedforwards.moe.balance=micro_batch"),
        ([IN_TURN, "parametrisation=mup"], "choose model/feedforward@model.feedforwards.moe=gelu"),
        ([IN_TURN, "model.loops=2"], "model/feedforward@model.feedforwards.moe=moe takes figures of one pass"),
        ([IN_TURN, "model.feedforwards.moe.d_model=3"], "model.feedforwards.moe.d_model is refused"),
        ([*EARLY[1:], IN_TURN], "begin the pattern with it, or set model.num_early_layers=0"),
        ([IN_TURN, *EARLY[1:]], "has no effect, since model.feedforward_pattern"),
        ([*SIDES, *EARLY[1:], IN_TURN], "and model.feedforward_pattern names those of all layers"),
        (["model.feedforward_pattern=[moe,moe,moe,moe]"], "holds 4 layers and model.num_layers=3"),
        ([*SIDES, IN_TURN, "model.decoder.num_layers=1"], "holds 2 layers and model.decoder.num_layers=1"),
        (
            [*SIDES, "model.decoder.num_layers=1", "model.decoder.feedforward_pattern=[moe,relu]"],
            "model.decoder.feedforward_pattern holds 2 layers and model.decoder.num_layers=1",
        ),
    ],
)
def test_feedforwards_in_turn_that_cannot_be_are_refused_by_name(overrides: list[str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(sentence)):
        compose_checked("train", ["model.num_layers=3", *overrides])


@pytest.mark.parametrize(
    "overrides",
    [
        [*EARLY[1:], IN_TURN],
        [*SIDES, *EARLY[1:], IN_TURN],
        ["model.num_early_layers=2"],
        [*EARLY, "model.num_early_layers=4"],
        [*SIDES, *EARLY, "model.decoder.num_layers=1"],
        ["model.feedforward_pattern=[moe,moe,moe,moe]"],
        ["model.pattern=[lstm,lstm,lstm,lstm]"],
        [*SIDES, "model.encoder.feedforward_pattern=[moe,relu]", "model.encoder.num_layers=1"],
    ],
    ids=" ".join,
)
def test_layers_that_cannot_be_are_refused_in_the_same_words_before_they_are_made(overrides: list[str]) -> None:
    overrides = ["model.num_layers=3", "model/position=none", *overrides]
    with pytest.raises(ConfigurationError) as refusal:
        compose_checked("train", overrides)
    assert layers_error(compose("train", overrides)) == str(refusal.value)


@pytest.mark.parametrize(
    ("overrides", "sentences"),
    [
        (["model.num_early_layers=2"], ["there is none: add it by"]),
        ([*EARLY[1:], IN_TURN], ["model.feedforward_pattern names those of all layers"]),
        ([*EARLY, "model.num_layers=1"], ["more than the 1 layers that there are, by model.num_layers:"]),
        (
            [*EARLY, "model.num_layers=1", "model.encoder.num_layers=1"],
            [f"more than the 1 layers that there are, by {path}.num_layers:" for path in ("model.encoder", "model")],
        ),
    ],
)
def test_what_early_layers_lack_is_yielded_once_but_for_what_each_side_lacks(
    overrides: list[str], sentences: list[str]
) -> None:
    view = ConfigView(compose("train", [*SIDES, *overrides]))
    yielded = [sentence for rule in compatibility.RULES for sentence in rule(view) if "num_early" in sentence]
    assert len(yielded) == len(sentences)
    assert all(part in sentence for part, sentence in zip(sentences, yielded, strict=True))


@pytest.mark.slow
def test_a_pattern_of_one_side_may_stand_beside_early_layers_of_the_other() -> None:
    assert compose_checked("train", [*SIDES, *EARLY, "model.decoder.feedforward_pattern=[relu,moe]"])


def test_a_class_of_ones_own_is_mentioned_wherever_it_stands() -> None:
    own = {"early_feedforward": {"_target_": "json.JSONEncoder"}, "mixers": {"near": {"_target_": "json.JSONDecoder"}}}
    own |= {"feedforwards": {"wide": {"_target_": "json.JSONEncoder"}}}
    sentences = list(unchecked_sentences({"model": own}))
    assert [sentence.partition(" ")[0] for sentence in sentences] == [
        "model.early_feedforward=json.JSONEncoder",
        "model.mixers.near=json.JSONDecoder",
        "model.feedforwards.wide=json.JSONEncoder",
    ]
