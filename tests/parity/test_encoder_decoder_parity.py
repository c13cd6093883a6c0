"""T5 in both versions, switch transformers and BART against `transformers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    MBartConfig,
    MBartForConditionalGeneration,
    SwitchTransformersConfig,
    SwitchTransformersForConditionalGeneration,
    T5Config,
    T5ForConditionalGeneration,
)

from headtohead.pretrained.bart import BartFamily, MbartFamily
from headtohead.pretrained.switch_transformers import SwitchTransformersFamily
from headtohead.pretrained.t5 import T5Family
from parity.parity import Case, check
from parity.token_rows import LENGTH, VOCABULARY, token_rows

TASK = ("task=seq2seq", "data=reverse")
SPECIAL: dict[str, Any] = {
    "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2, "decoder_start_token_id": 0,
    "vocab_size": VOCABULARY, "attn_implementation": "eager",
}  # fmt: skip


def both_sides(length: int = LENGTH) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]]:
    """Sources and targets of other lengths, one of each padded."""
    source_theirs, source = token_rows(length)
    target_theirs, target = token_rows(length - 4)
    theirs = {
        **source_theirs,
        "decoder_input_ids": target_theirs["input_ids"],
        "decoder_attention_mask": target_theirs["attention_mask"],
    }
    return theirs, {**source, "decoder_tokens": target["tokens"], "decoder_valid": target["valid"]}


def untied(config: Any) -> nn.Module:
    """Version 1.1 as it was published: the reference's constructor ties whatever it is told."""
    model = T5ForConditionalGeneration(config)
    model.lm_head.weight = nn.Parameter(torch.empty_like(model.shared.weight))
    return model


@pytest.mark.slow
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_t5_writes_what_its_reference_writes(version: str) -> None:
    first = version == "1.0"
    message: dict[str, Any] = {"feed_forward_proj": "relu" if first else "gated-gelu", "tie_word_embeddings": first}
    config = T5Config(
        d_model=24, d_kv=8, d_ff=40, num_layers=2, num_decoder_layers=3, num_heads=3 if first else 5,
        relative_attention_num_buckets=8, relative_attention_max_distance=9, **message, **SPECIAL,
    )  # fmt: skip
    theirs, ours = both_sides()
    reference = T5ForConditionalGeneration if first else untied
    case = Case(T5Family(), reference, config, theirs, ours, scored=ours["decoder_valid"], overrides=TASK)
    check(f"T5 v{version}", case, remark="tied, logits scaled" if first else "gated, untied, heads of another width")


@pytest.mark.slow
@pytest.mark.parametrize(("encoder", "decoder"), [(1, 1), (2, 3)])
def test_switch_transformers_write_what_their_reference_writes(encoder: int, decoder: int) -> None:
    config = SwitchTransformersConfig(
        d_model=24, d_kv=8, d_ff=38, num_layers=2, num_decoder_layers=3, num_heads=3, num_experts=2,
        num_sparse_encoder_layers=encoder, num_sparse_decoder_layers=decoder, relative_attention_num_buckets=8,
        relative_attention_max_distance=9, **SPECIAL,
    )  # fmt: skip
    theirs, ours = both_sides()
    family, reference = SwitchTransformersFamily(), SwitchTransformersForConditionalGeneration
    case = Case(family, reference, config, theirs, ours, scored=ours["decoder_valid"], overrides=TASK)
    name = "Switch transformer" if encoder == 1 else "Switch transformer, experts in all layers"
    check(name, case, remark="rows shorter than the reference's capacity of an expert")


@pytest.mark.slow
@pytest.mark.parametrize("scaled", [False, True])
def test_bart_writes_what_its_reference_writes(scaled: bool) -> None:
    config = BartConfig(
        d_model=24, encoder_layers=2, decoder_layers=3, encoder_attention_heads=3,
        decoder_attention_heads=3, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=LENGTH + 2,
        scale_embedding=scaled, forced_eos_token_id=None, **SPECIAL,
    )  # fmt: skip
    theirs, ours = both_sides()
    case = Case(
        BartFamily(), BartForConditionalGeneration, config, theirs, ours, scored=ours["decoder_valid"], overrides=TASK,
        constants=("final_logits_bias",),
    )  # fmt: skip
    check("BART" if not scaled else "BART, embedding scaled", case)


@pytest.mark.slow
def test_mbart_writes_what_its_reference_writes() -> None:
    config = MBartConfig(
        d_model=24, encoder_layers=2, decoder_layers=3, encoder_attention_heads=3,
        decoder_attention_heads=3, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=LENGTH + 2,
        scale_embedding=False, forced_eos_token_id=None, **SPECIAL,
    )  # fmt: skip
    theirs, ours = both_sides()
    case = Case(
        MbartFamily(), MBartForConditionalGeneration, config, theirs, ours, scored=ours["decoder_valid"],
        overrides=TASK, constants=("final_logits_bias",),
    )  # fmt: skip
    check("mBART", case)
