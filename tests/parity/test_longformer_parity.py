"""Longformer against `transformers`, which is told to make the first token global where it does not by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from transformers import (
    LongformerConfig,
    LongformerForMaskedLM,
    LongformerForSequenceClassification,
    LongformerForTokenClassification,
)

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.model_family import InexpressibleError
from headtohead.pretrained.sparse_encoders import LongformerFamily
from parity.parity import Case, check
from parity.token_rows import LENGTH, VOCABULARY, pair_rows

CLASSES: dict[str, Any] = {"num_labels": 3}
REPORTED = "the first token is global, which global_attention_mask tells the reference"


def longformer(reference: Callable[[Any], nn.Module], head: HeadName) -> Case:
    """Two tokens on each side, in rows of 11."""
    config = LongformerConfig(
        vocab_size=VOCABULARY, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
        max_position_embeddings=LENGTH + 7, attention_window=4, **CLASSES,
    )  # fmt: skip
    theirs, ours = pair_rows()
    first = (torch.arange(LENGTH) == 0).long().expand(2, LENGTH)
    sized = () if head == "masked_language_model" else ("model.num_classes=3",)
    return Case(
        LongformerFamily(), reference, config, {**theirs, "global_attention_mask": first}, ours, head=head,
        scored=None if head == "classifier" else ours["valid"], overrides=sized,
    )  # fmt: skip


def test_longformer_restores_hidden_tokens_as_its_reference_does() -> None:
    check("Longformer, masked LM", longformer(LongformerForMaskedLM, "masked_language_model"), remark=REPORTED)


@pytest.mark.slow
def test_longformer_classifies_sequences_as_its_reference_does() -> None:
    check("Longformer, classification", longformer(LongformerForSequenceClassification, "classifier"))


def test_longformer_tags_tokens_as_its_reference_does() -> None:
    check("Longformer, tagging", longformer(LongformerForTokenClassification, "tagger"), remark=REPORTED)


def test_windows_of_several_widths_are_refused() -> None:
    family = LongformerFamily()
    hub = {**family.defaults, "attention_window": [4, 8]}
    with pytest.raises(InexpressibleError, match=r"attention_window=\[4, 8\], and all layers of ours have the same"):
        family.mixing(hub, "tagger")
