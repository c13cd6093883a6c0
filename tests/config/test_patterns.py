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
