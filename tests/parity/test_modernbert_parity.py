"""ModernBERT against `transformers`: global and local layers with a rotary base each, gates, and what has no norm."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import ModernBertConfig, ModernBertForMaskedLM

import headtohead as h2h
from headtohead.config.build import make_model
from headtohead.pretrained.modernbert import ModernBertFamily, layer_kinds
from parity.parity import Case, check
from parity.token_rows import LENGTH, VOCABULARY, pair_rows

SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 24, "num_hidden_layers": 4, "num_attention_heads": 3,
    "intermediate_size": 40, "local_attention": 4, "max_position_embeddings": LENGTH + 4, "pad_token_id": 0,
    "attn_implementation": "eager",
}  # fmt: skip


def modernbert(**changes: Any) -> Case:
    theirs, ours = pair_rows()
    theirs = {name: tensor for name, tensor in theirs.items() if name != "token_type_ids"}
    ours = {name: tensor for name, tensor in ours.items() if name != "token_types"}
    config = ModernBertConfig(**{**SIZES, **changes})
    family = ModernBertFamily()
    return Case(
        family, ModernBertForMaskedLM, config, theirs, ours, head="masked_language_model", scored=ours["valid"]
    )  # fmt: skip


BIASES = {"attention_bias": True, "mlp_bias": True, "norm_bias": True, "classifier_bias": True, "decoder_bias": False}
BASES = {
    "full_attention": {"rope_type": "default", "rope_theta": 500.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 7.0},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("ModernBERT, masked LM", {}),
        ("ModernBERT, other bases, biases, untied", {**BIASES, "rope_parameters": BASES, "tie_word_embeddings": False}),
        ("ModernBERT, windows first", {"layer_types": ["sliding_attention", "full_attention"] * 2}),
        ("ModernBERT, windows alone", {"layer_types": ["sliding_attention"] * 4, "local_attention": 6}),
        ("ModernBERT, no windows", {"layer_types": ["full_attention"] * 4, "hidden_activation": "silu"}),
    ],
)
def test_modernbert_restores_hidden_tokens_as_its_reference_does(name: str, changes: dict[str, Any]) -> None:
    check(name, modernbert(**changes))


@pytest.mark.slow
def test_the_published_size_has_as_many_parameters_as_the_reference() -> None:
    overrides = ("task=masked_lm", "data=grammar_lm", "model=modernbert", "model/size=modernbert_base")
    sized = ("model.vocab_size=50368", "model.max_length=8192")
    ours = make_model(h2h.compose("train", [*overrides, *sized]), "meta")
    with torch.device("meta"):
        theirs = ModernBertForMaskedLM(ModernBertConfig())
    numbers = [sum(held.numel() for held in model.parameters()) for model in (ours, theirs)]
    assert numbers[0] == numbers[1] == 149_655_232


def test_older_files_say_how_often_a_layer_sees_everything() -> None:
    hub = ModernBertFamily().complete({"num_hidden_layers": 5, "global_attn_every_n_layers": 2})
    assert [kind == "full_attention" for kind in layer_kinds(hub)] == [True, False, True, False, True]
