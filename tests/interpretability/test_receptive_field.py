"""Receptive fields against mixers and models whose dependence is known."""

from __future__ import annotations

from functools import partial

import torch

from contracts.choices import factory
from headtohead.architectures.heads import ClassHeadFields
from headtohead.architectures.image_convolution import Cnn
from headtohead.components.initialisations import he
from headtohead.components.norms import BatchNorm
from headtohead.interpretability.receptive_field import all_maps, mixer_fields, model_fields
from headtohead.interpretability.recorded_attention import attention_maps
from silent_mixer import RunningMean
from small_models import VOCAB_SIZE, exact_model

TOKENS = torch.randint(0, VOCAB_SIZE, (2, 9), generator=torch.Generator().manual_seed(0))
VALID = torch.arange(9)[None] < torch.tensor([9, 5])[:, None]


def test_a_running_mean_depends_on_all_tokens_before_alike() -> None:
    model = exact_model("decoder_only", mixer=RunningMean)
    fields = mixer_fields(model, {"tokens": TOKENS})
    assert [one.name for one in fields] == [f"stack.{n}.mixer.receptive_field" for n in (0, 1)]
    equal = torch.ones(9, 9).tril() / torch.arange(1, 10)[:, None]
    for one in fields:
        assert one.causal and one.measure == "receptive field"
        torch.testing.assert_close(one.weights, equal.expand(2, 1, 9, 9))


def test_what_precedes_a_mixer_does_not_hide_that_it_is_silent() -> None:
    mixer, local = factory("mixer", "lstm"), factory("local", "short_conv")
    model = exact_model("decoder_only", mixer=mixer, local=local)
    names = [one.name for one in all_maps(model, {"tokens": TOKENS})]
    assert names == [f"stack.{layer}.mixer.receptive_field" for layer in (0, 1)]


def test_a_short_convolution_reaches_as_far_as_its_kernels_together() -> None:
    model = exact_model("decoder_only", mixer=factory("mixer", "short_conv", kernel=3))
    (field,) = model_fields(model, {"tokens": TOKENS})
    seen = field.weights[0, 0] > 0
    distance = torch.arange(9)[:, None] - torch.arange(9)
    assert torch.equal(seen, (distance >= 0) & (distance <= 4))


def test_padding_neither_depends_nor_is_depended_on() -> None:
    model = exact_model("encoder_only", mixer=factory("mixer", "gru"))
    inputs = {"tokens": TOKENS, "valid": VALID}
    for one in (*mixer_fields(model, inputs), *model_fields(model, inputs)):
        assert not one.causal
        pairs = VALID[:, None, :, None] & VALID[:, None, None, :]
        assert (one.weights[pairs.expand_as(one.weights)] > 0).all()
        assert not one.weights[~pairs.expand_as(one.weights)].any()


def test_a_decoder_depends_on_its_source_and_on_its_own_past() -> None:
    model = exact_model("encoder_decoder")
    source, target = model_fields(model, {"tokens": TOKENS, "decoder_tokens": TOKENS[:, :6]})
    assert (source.name, source.kind, source.weights.shape[2:]) == ("model.tokens.receptive_field", "cross", (6, 9))
    assert (target.kind, target.causal, target.weights.shape[2:]) == ("self", True, (6, 6))
    assert (source.weights > 0).all()


def test_a_convolutional_network_shows_which_pixels_each_position_sees() -> None:
    torch.manual_seed(0)
    model = Cnn(8, 2, norm=BatchNorm, initialisation=he, image_shape=(1, 8, 8), classes=ClassHeadFields(3))
    (field,) = all_maps(model, {"images": torch.randn(2, 1, 8, 8)})
    assert (field.queries, field.keys, field.weights.shape[-1]) == ("features", "images", 64)
    first = field.weights[0, 0, 0].view(8, 8) > 0
    assert first[0, 0] and not first[-1, -1]


def test_a_model_with_attention_shows_it_and_its_own_field_only_when_requested() -> None:
    model = exact_model("decoder_only")
    names = [one.name for one in all_maps(model, {"tokens": TOKENS})]
    assert names == ["stack.0.mixer", "stack.1.mixer"]
    assert [one.name for one in all_maps(model, {"tokens": TOKENS}, fields="always")] == [
        *names,
        "model.receptive_field",
    ]
    silent = exact_model("decoder_only", mixer=RunningMean)
    assert all_maps(silent, {"tokens": TOKENS}, fields="never") == []


def test_the_layers_of_a_hybrid_stay_in_their_order() -> None:
    choices = {name: factory("mixer", name) for name in ("lstm", "softmax_attention")}
    model = exact_model("decoder_only", mixer=choices["lstm"], mixers=choices, pattern=["lstm", "softmax_attention"])
    assert [one.name for one in all_maps(model, {"tokens": TOKENS}, fields="always")] == [
        "stack.0.mixer.receptive_field",
        "stack.1.mixer",
        "model.receptive_field",
    ]


def test_looking_leaves_gradients_modes_and_generators_alone() -> None:
    model = exact_model("decoder_only", mixer=factory("mixer", "lstm")).train()
    before = torch.random.get_rng_state()
    all_maps(model, {"tokens": TOKENS}, fields="always")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert model.training and all(parameter.grad is None for parameter in model.parameters())


def test_channels_of_implicit_attention_are_shown_in_groups_by_their_mean_size() -> None:
    model = exact_model("decoder_only", mixer=partial(factory("mixer", "short_conv")), d_model=48, num_heads=2)
    (first, _) = attention_maps(model, {"tokens": TOKENS})
    assert first.weights.shape[1] == 24 and first.channels == 2 and first.measure == "implicit attention"
    assert (first.weights >= 0).all()
