"""Heads: pooling by hand, the masked head on selected rows, tying, refusals."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

from headtohead.architectures.heads import Classifier, LanguageModel, MaskedLanguageModel, VocabularyHead, make_head
from headtohead.components.initialisations import gpt2
from headtohead.components.norms import LayerNorm
from small_models import redraw, small_model

FEATURES = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0))
LENGTHS = (5, 2, 1)
VALID = torch.arange(5) < torch.tensor(LENGTHS)[:, None]


@pytest.mark.parametrize("with_padding", [True, False])
def test_pooling_is_what_its_name_says(with_padding: bool) -> None:
    valid, lengths = (VALID, LENGTHS) if with_padding else (None, (5, 5, 5))
    for row, length in enumerate(lengths):
        expected = {
            "cls": FEATURES[row, 0],
            "mean": FEATURES[row, :length].mean(0),
            "last": FEATURES[row, length - 1],
        }
        for pooling, vector in expected.items():
            pooled = Classifier(8, 2, pooling=pooling).pool(FEATURES, valid)[row]
            torch.testing.assert_close(pooled, vector)


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
def test_a_head_has_a_bias_only_where_it_is_asked_for(name: str, bias: bool) -> None:
    head = make_head(
        name,
        8,
        vocab_size=11,
        num_classes=None,
        norm=LayerNorm,
        tied_to=None,
        bias=bias,
        pooling="cls",
        dropout=0.0,
    )
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
    with pytest.raises(ValueError, match="head='tagger' is unknown: choose one of language_model"):
        make_head(
            "tagger",
            8,
            vocab_size=11,
            num_classes=2,
            norm=LayerNorm,
            tied_to=None,
            bias=False,
            pooling="cls",
            dropout=0.0,
        )


@pytest.mark.parametrize("family", ["decoder_only", "encoder_only"])
def test_a_head_of_its_own_starts_as_the_initialisation_says(family: str) -> None:
    model = small_model(family, tie_weights=False, initialisation=partial(gpt2, std=0.5))
    weight = model.head.get_parameter("weight")
    assert weight.std().item() == pytest.approx(0.5, rel=0.2)
