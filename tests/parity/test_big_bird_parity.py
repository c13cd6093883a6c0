"""BigBird against `transformers`, with full attention and with sparse blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import (
    BigBirdConfig,
    BigBirdForMaskedLM,
    BigBirdForSequenceClassification,
    BigBirdForTokenClassification,
)

from headtohead.architectures.architecture import Architecture
from headtohead.architectures.head_names import HeadName
from headtohead.components.mixers.attention.bigbird import adjacent
from headtohead.pretrained.sparse_encoders import BigBirdFamily
from parity.parity import Case, check
from parity.token_rows import VOCABULARY, pair_rows

LENGTH, BLOCK_SIZE, NUM_RANDOM = 39, 4, 2
NUM_BLOCKS = 10
"""The last one has three tokens; they are more than the reference reads with full attention."""
REPORTED: dict[str, Any] = {"num_labels": 3, "attn_implementation": "eager"}


def big_bird(reference: Callable[[Any], nn.Module], head: HeadName, **changes: Any) -> Case:
    config = BigBirdConfig(
        vocab_size=VOCABULARY, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
        max_position_embeddings=LENGTH + 1, block_size=BLOCK_SIZE, num_random_blocks=NUM_RANDOM, sep_token_id=3,
        **REPORTED, **changes,
    )  # fmt: skip
    theirs, ours = pair_rows(LENGTH)
    sized = () if head == "masked_language_model" else ("model.num_classes=3",)
    scored = None if head == "classifier" else ours["valid"]
    return Case(
        BigBirdFamily(), reference, config, theirs, ours, head=head, scored=scored, overrides=sized,
        idle=("bert.pooler.weight", "bert.pooler.bias"),
    )  # fmt: skip


@pytest.mark.parametrize("rescaled", [False, True])
def test_bigbird_with_full_attention_restores_tokens_as_its_reference_does(rescaled: bool) -> None:
    case = big_bird(
        BigBirdForMaskedLM, "masked_language_model", attention_type="original_full", rescale_embeddings=rescaled
    )
    check("BigBird, full attention" + rescaled * ", embedding scaled", case)


def chosen(layer: int) -> np.ndarray:
    """The random blocks that a layer of ours draws with its number as seed, for all blocks but the first and last."""
    pattern, certain = (
        adjacent(torch.tensor([NUM_BLOCKS]), NUM_BLOCKS, count, torch.tensor(layer), causal=False)[0]
        for count in (NUM_RANDOM, 0)
    )
    blocks = (pattern & ~certain).nonzero()[:, 1].reshape(NUM_BLOCKS - 2, NUM_RANDOM)
    assert len({*map(tuple, blocks.tolist())}) > 2, "blocks that differ"
    return blocks.numpy()


def planned(drawn: list[np.ndarray], **plan: Any) -> list[np.ndarray]:
    del plan
    return drawn


def drawing_as_ours(config: Any) -> nn.Module:
    """The reference with random blocks of ours, the same for all heads, in place of block 0 for all."""
    model = BigBirdForMaskedLM(config)
    for number, layer in enumerate(model.get_submodule("bert.encoder.layer").children()):
        drawn = [chosen(number)] * config.num_attention_heads
        attention: Any = layer.get_submodule("attention.self")
        attention._bigbird_block_rand_mask_with_head = partial(planned, drawn)
    return model


def seeded(model: Architecture, inputs: Mapping[str, Tensor]) -> Tensor:
    for number, block in enumerate(model.get_submodule("stack.blocks").children()):
        block.get_buffer("mixer.seed").fill_(number)
    return model(**inputs)


def test_bigbird_with_sparse_blocks_restores_tokens_as_its_reference_does_given_the_same_blocks() -> None:
    """Both rows end in the same block: the reference would take the last block of a row that is padded by more."""
    case = big_bird(BigBirdForMaskedLM, "masked_language_model")
    valid = case.ours["valid"].clone()
    valid[1, LENGTH - 3 :] = torch.tensor([True, True, False])
    assert case.config.attention_type == "block_sparse"
    sparse = replace(
        case,
        reference=drawing_as_ours,
        theirs={**case.theirs, "attention_mask": valid.long()},
        ours={**case.ours, "valid": valid},
        scored=valid,
        requested=seeded,
    )
    remark = "with our random blocks; the reference uses block 0 for all of them in evaluation"
    check("BigBird, sparse blocks", sparse, remark=remark)


def test_bigbird_classifies_sequences_as_its_reference_does() -> None:
    check(
        "BigBird, classification",
        big_bird(BigBirdForSequenceClassification, "classifier", attention_type="original_full"),
    )


def test_bigbird_tags_tokens_as_its_reference_does() -> None:
    check("BigBird, tagging", big_bird(BigBirdForTokenClassification, "tagger", attention_type="original_full"))
