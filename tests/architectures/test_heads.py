"""Heads: pooling by hand, the masked head on selected rows, tying, refusals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headtohead.architectures.architecture import Head
from headtohead.architectures.heads import Classifier, Regressor, Span, Tagger, make_head
from headtohead.architectures.pooling import pool
from headtohead.architectures.vocabulary_heads import (
    LanguageModel,
    MaskedLanguageModel,
    MaskedLanguageModelAndPair,
    VocabularyHead,
)
from headtohead.components.component import Context
from headtohead.components.feedforwards import gelu_tanh
from headtohead.components.initialisations import gpt2
from headtohead.components.norms import LayerNorm
from small_models import redraw, small_model

FEATURES = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0))
LENGTHS = (5, 2, 1)
VALID = torch.arange(5) < torch.tensor(LENGTHS)[:, None]


@pytest.mark.parametrize("valid", [VALID, VALID.flip(1), None], ids=["on the right", "on the left", "none"])
def test_pooling_is_what_its_name_says_wherever_padding_is(valid: Tensor | None) -> None:
    for row in range(len(LENGTHS)):
        real = FEATURES[row] if valid is None else FEATURES[row, valid[row]]
        for pooling, vector in {"cls": real[0], "mean": real.mean(0), "last": real[-1]}.items():
            torch.testing.assert_close(pool(FEATURES, valid, pooling)[row], vector)


def test_the_masked_head_gives_selected_rows_what_it_gives_them_in_place() -> None:
    head = redraw(MaskedLanguageModel(8, 11, norm=LayerNorm, tied_to=None).double())
    features = FEATURES.double()
    whole = head(features)
    assert (head(features[VALID]) - whole[VALID]).abs().max() < 1e-12


def test_a_tied_head_adds_no_weight_but_its_bias() -> None:
    embedding = nn.Parameter(torch.randn(11, 8))
    head = LanguageModel(8, 11, tied_to=embedding, bias=True)
    assert head.weight is embedding
    own = [name for name, parameter in head.named_parameters() if parameter is not embedding]
    assert own == ["bias"]


@pytest.mark.parametrize("name", ["language_model", "masked_language_model"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_head_has_a_bias_only_where_it_is_requested(name: str, bias: bool) -> None:
    head = made(name, bias=bias)
    assert isinstance(head, VocabularyHead)
    assert (head.bias is not None) == bias


def test_a_tied_weight_is_not_drawn_again_by_the_head() -> None:
    embedding = nn.Parameter(torch.full((11, 8), 7.0))
    LanguageModel(8, 11, tied_to=embedding, bias=False).reset_parameters()
    assert (embedding == 7).all()


def test_tying_to_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match=r"tie_weights=true needs an embedding of shape \(11, 8\), got \(11, 4\)"):
        LanguageModel(8, 11, tied_to=nn.Parameter(torch.zeros(11, 4)), bias=False)


def test_an_unknown_pooling_or_head_is_refused_with_the_choices() -> None:
    with pytest.raises(ValueError, match=r"pooling='max' is unknown: choose one of cls, mean, last"):
        Classifier(8, 2, pooling="max")
    with pytest.raises(ValueError, match="head='parser' is unknown: choose one of language_model"):
        made("parser")


@pytest.mark.parametrize(
    ("name", "missing", "message"),
    [
        ("classifier", "num_classes", "num_classes is missing: a classifier needs data with labels"),
        ("tagger", "num_classes", "num_classes is missing: a tagger needs data with tags"),
        ("language_model", "vocab_size", "vocab_size is missing: head=language_model predicts tokens"),
        ("masked_language_model_and_pair", "vocab_size", "vocab_size is missing: head=masked_language_model_and_pair"),
    ],
)
def test_a_head_without_the_number_it_needs_says_which(name: str, missing: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(name, **{missing: None})


@pytest.mark.parametrize("pooling", ["cls", "mean", "last"])
def test_a_regressor_predicts_one_number_of_a_pooled_vector(pooling: str) -> None:
    head = redraw(Regressor(8, pooling=pooling))
    expected = pool(FEATURES, VALID, pooling) @ head.linear.weight[0] + head.linear.bias[0]
    assert head(FEATURES, VALID).shape == (3,)
    torch.testing.assert_close(head(FEATURES, VALID), expected)


def test_a_tagger_says_of_a_token_what_it_says_of_it_alone() -> None:
    head = redraw(Tagger(8, 5))
    torch.testing.assert_close(head(FEATURES)[VALID], head(FEATURES[VALID]))


def test_an_answer_is_looked_for_in_the_second_text_only_and_never_in_padding() -> None:
    head = redraw(Span(8))
    free = head(FEATURES)
    token_types = torch.tensor([[0, 0, 1, 1, 1]] * 3)
    logits = head(FEATURES, VALID, token_types)
    allowed = VALID & (token_types == 1)
    assert torch.equal(logits[allowed], free[allowed])
    assert (logits[~allowed] == torch.finfo(torch.float32).min).all()
    assert torch.equal(head(FEATURES, VALID)[VALID], free[VALID])
    assert logits[2].softmax(0).isfinite().all(), "no place for an answer makes no NaN"


@pytest.mark.parametrize("pooling", ["cls", "mean", "last"])
def test_the_pair_is_judged_from_one_pooled_vector(pooling: str) -> None:
    head = MaskedLanguageModelAndPair(8, 11, norm=LayerNorm, tied_to=None, pooling=pooling)
    redraw(head)
    vector = torch.tanh(head.pooler(pool(FEATURES, VALID, pooling)))
    torch.testing.assert_close(head.pair_logits(FEATURES, VALID), head.pair(vector))
    plain = MaskedLanguageModel(8, 11, norm=LayerNorm, tied_to=None)
    plain.load_state_dict({name: value for name, value in head.state_dict().items() if name in plain.state_dict()})
    assert torch.equal(head(FEATURES), plain(FEATURES))


@pytest.mark.parametrize(("pooler", "activation"), [("tanh", torch.tanh), ("gelu_tanh", gelu_tanh)])
def test_a_pooler_is_a_dense_layer_and_its_activation_before_the_classes(
    pooler: str, activation: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    head = redraw(Classifier(8, 3, pooling="mean", pooler=pooler))
    dense, linear = head.get_submodule("pooler.dense"), head.get_submodule("linear")
    expected = linear(activation(dense(pool(FEATURES, VALID, "mean"))))
    torch.testing.assert_close(head(FEATURES, VALID), expected)
    assert Classifier(8, 3, pooling="mean").pooler is None


def test_the_masked_head_has_the_activation_it_is_given() -> None:
    plain = redraw(MaskedLanguageModel(8, 11, norm=LayerNorm, tied_to=None))
    other = MaskedLanguageModel(8, 11, norm=LayerNorm, tied_to=None, activation="tanh")
    other.load_state_dict(plain.state_dict())
    hidden = torch.tanh(other.dense(FEATURES))
    torch.testing.assert_close(other.transform(FEATURES), other.norm(hidden, Context()))
    assert not torch.allclose(other(FEATURES), plain(FEATURES))


def test_scaled_logits_are_divided_by_the_root_of_the_width() -> None:
    plain = redraw(LanguageModel(8, 11, tied_to=None, bias=True))
    scaled = LanguageModel(8, 11, tied_to=None, bias=True, scale=True)
    scaled.load_state_dict(plain.state_dict())
    bias = plain.get_parameter("bias")
    torch.testing.assert_close(scaled(FEATURES) - bias, (plain(FEATURES) - bias) / 8**0.5)


CAP = 0.3


def test_every_head_over_a_vocabulary_caps_its_logits() -> None:
    for name in ("language_model", "multi_token_language_model", "masked_language_model"):
        plain, capped = (made(name, bias=True, logit_cap=cap) for cap in (None, CAP))
        redraw(plain)
        capped.load_state_dict(plain.state_dict())
        logits = plain(FEATURES)
        assert logits.abs().max() > CAP
        torch.testing.assert_close(capped(FEATURES), CAP * (logits / CAP).tanh())


def test_every_head_over_a_vocabulary_has_a_factor_before_its_bias_and_its_cap() -> None:
    for name in ("language_model", "multi_token_language_model", "masked_language_model"):
        plain, scaled = (made(name, bias=True, logit_scale=scale) for scale in (None, 0.4))
        capped = made(name, bias=True, logit_scale=0.4, logit_cap=CAP)
        redraw(plain)
        for head in (scaled, capped):
            head.load_state_dict(plain.state_dict())
        bias = plain.get_parameter("bias")
        expected = 0.4 * (plain(FEATURES) - bias) + bias
        torch.testing.assert_close(scaled(FEATURES), expected)
        torch.testing.assert_close(capped(FEATURES), CAP * (expected / CAP).tanh())


def test_the_head_of_pairs_caps_the_logits_of_tokens_alone() -> None:
    plain, capped = (made("masked_language_model_and_pair", bias=True, logit_cap=cap) for cap in (None, CAP))
    redraw(plain)
    capped.load_state_dict(plain.state_dict())
    assert isinstance(plain, MaskedLanguageModelAndPair) and isinstance(capped, MaskedLanguageModelAndPair)
    torch.testing.assert_close(capped(FEATURES), CAP * (plain(FEATURES) / CAP).tanh())
    torch.testing.assert_close(capped.pair_logits(FEATURES), plain.pair_logits(FEATURES))


def test_an_unknown_pooler_is_refused_with_the_choices() -> None:
    with pytest.raises(ValueError, match=r"pooler='max' is unknown: choose one of none, tanh, gelu, gelu_tanh, relu"):
        Classifier(8, 2, pooling="cls", pooler="max")


def made(name: str, **changes: Any) -> Head:
    usual: dict[str, Any] = {"vocab_size": 11, "num_classes": 2, "norm": LayerNorm, "tied_to": None, "bias": False}
    return make_head(name, 8, **{**usual, "pooling": "cls", "dropout": 0.0, **changes})


@pytest.mark.parametrize("family", ["decoder_only", "encoder_only"])
def test_a_head_of_its_own_starts_as_the_initialisation_says(family: str) -> None:
    model = small_model(family, tie_weights=False, initialisation=partial(gpt2, std=0.5))
    weight = model.head.get_parameter("weight")
    assert weight.std().item() == pytest.approx(0.5, rel=0.2)
