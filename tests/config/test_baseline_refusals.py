"""Choices that models before transformers cannot be combined with are refused with the right words."""

from __future__ import annotations

import pytest

from headtohead.config.compose.composition import compose_checked
from headtohead.config.errors import ConfigurationError

REFUSED = {
    ("model=recurrent", "model.bidirectional=true"): ["task=causal_lm", "model.bidirectional=false", "task=masked_lm"],
    ("model=recurrent", "task=masked_lm"): ["task=masked_lm", "model.bidirectional=true", "task=causal_lm"],
    ("model=external",): ["model.module is null", "model.module._target_="],
    ("model=recurrent", "model/position=rotary"): ["rotates queries and keys", "model/mixer=lstm computes no scores"],
    ("model=encoder_only", "task=masked_lm", "model/mixer=linformer", "model/position=rotary"): [
        "model/mixer=linformer compares its queries with mixtures of all keys"
    ],
    ("model/mixer=linear_attention", "model/position=alibi"): ["biases the score of each pair", "learned, rotary or"],
    ("model/mixer=performer", "model/position=t5_bias"): ["sums keys and values before it reads them", "rotary"],
    ("model/mixer=based", "model.d_model=128"): [
        "turns heads of width 32, and those of model/mixer=based have 16: set model.position.head_width",
        "model.mixer.key_width alike, or model.mixer.rotated=false beside layers",
    ],
    ("model.mixer.rotated=false",): ["model/position=rotary nothing to rotate", "model/position=none"],
    ("model.pattern=[mamba,softmax_attention]", "model.mixers.softmax_attention.rotated=false"): [
        "model.mixers.softmax_attention.rotated=false in every layer of model that could rotate"
    ],
    ("model=recurrent", "model.drop_path=0.1"): ["model/residual=none has no stream", "model/residual=pre"],
    ("model.drop_path=0.1", "model.num_layers=1", "model.loops=4"): ["grows from 0", "one layer", "give more layers"],
    (
        "model=encoder_decoder",
        "task=seq2seq",
        "data=number_words",
        "model.drop_path=0.1",
        "model.num_layers=1",
    ): [
        "grows from 0",
        "model.drop_path=0",
    ],
    ("model.first_norm=false", "model.embedding_norm=true", "model.loops=2"): [
        "model.loops=2 brings it back",
        "loops=1",
    ],
    ("model=cnn",): ["task=causal_lm cannot be done by model=cnn", "task=image_classification"],
    ("model=text_cnn", "task=classification", "data=sentence_grammar", "checkpointing=full"): [
        "model=text_cnn has no such blocks",
        "checkpointing=none",
    ],
    ("model=cnn", "task=image_classification", "data=digits", "checkpointing=offload"): ["has no such blocks"],
    ("checkpointing=offload", "trainer.compile=true"): ["which trainer.compile=true fuses", "checkpointing=full"],
    ("probe.receptive_fields=always", "trainer=fsdp"): ["which trainer=fsdp spreads", "h2h probe RUN --fields"],
    ("checkpointing=offload", "trainer=tensor_parallel"): ["trainer.tensor_parallel=2 saves", "checkpointing=full"],
    ("model=resnet", "task=image_classification", "data=digits", "trainer.accumulate=2"): [
        "model/norm=batch_norm",
        "layer_norm",
    ],
    ("model=recurrent", "task=classification", "data=sentence_grammar", "model.pooling=cls"): ["sees no other"],
    ("model=recurrent", "model.module.width=3"): ["model.module"],
    ("model=mlp", "model.num_layer=3", "task=classification", "data=sentence_grammar"): [
        "did you mean model.num_layers?"
    ],
}
ACCEPTED = [
    ("model.pattern=[sliding_window,softmax_attention]", "model.mixers.softmax_attention.rotated=false"),
    (
        "model.pattern=[sliding_window,softmax_attention]",
        "model.mixers.softmax_attention.rotated=false",
        "model.mixers.softmax_attention.head_width=48",
    ),
    ("model.pattern=[based,sliding_window]", "model.mixers.based.rotated=false"),
    ("model/mixer=based", "model.position.head_width=16"),
    ("model=recurrent", "model/mixer=gru"),
    ("model/mixer=performer", "model/position=rotary"),
    ("model/mixer=linear_attention", "model/position=rotary_ntk"),
    ("model=recurrent", "task=masked_lm", "model.bidirectional=true"),
    ("model=recurrent", "task=tagging", "data=tagging_grammar", "model.bidirectional=true"),
    ("model=recurrent", "task=span_qa", "data=qa_grammar", "model.bidirectional=true"),
    ("model=recurrent", "task=classification", "data=sentence_grammar"),
    ("model=recurrent_encoder_decoder", "task=seq2seq", "data=number_words", "model/cross=luong"),
    ("model=encoder_decoder", "task=seq2seq", "data=number_words", "model/cross=bahdanau"),
    ("model=mlp", "task=classification", "data=sentence_grammar"),
    ("model=mlp", "task=image_classification", "data=digits"),
    ("model=external", "model.module._target_=plain_modules.NextToken", "model.module.vocab_size=512"),
    ("model=decoder_only", "model/local=short_conv"),
    (
        "model=external",
        "model/size=small",
        "model.module._target_=plain_modules.Pixels",
        "model.module.num_inputs=4",
        "model.module.num_classes=3",
    ),
]


@pytest.mark.parametrize("overrides", REFUSED, ids=" ".join)
def test_what_does_not_go_together_is_refused_with_the_way_out(overrides: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        compose_checked("train", overrides)
    for words in REFUSED[overrides]:
        assert words in str(refusal.value)


@pytest.mark.slow
def test_a_size_gives_a_model_what_it_takes_and_no_more() -> None:
    images = ("task=image_classification", "data=digits", "model/size=small")
    small = compose_checked("train", ["model=vision_transformer", *images])["model"]
    plain = compose_checked("train", ["model=cnn", *images])["model"]
    assert (plain["d_model"], plain["num_layers"]) == (small["d_model"], small["num_layers"])
    assert "num_heads" in small and "num_heads" not in plain
    with pytest.raises(ConfigurationError, match=r"model\.num_heads is not a field of model=cnn"):
        compose_checked("train", ["model=cnn", *images, "model.num_heads=3"])


@pytest.mark.parametrize("overrides", ACCEPTED, ids=" ".join)
def test_what_goes_together_is_composed(overrides: tuple[str, ...]) -> None:
    compose_checked("train", overrides)
