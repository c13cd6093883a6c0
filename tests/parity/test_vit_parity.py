"""The vision transformer against `transformers`."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from transformers import ViTConfig, ViTForImageClassification

from headtohead.pretrained.vit import VitFamily
from parity.parity import Case, check

REPORTED: dict[str, Any] = {"num_labels": 5, "attn_implementation": "eager"}
SAVED = (
    (r"^vit\.layers\.", "vit.encoder.layer."),
    (r"attention\.q_proj", "attention.attention.query"),
    (r"attention\.k_proj", "attention.attention.key"),
    (r"attention\.v_proj", "attention.attention.value"),
    (r"attention\.o_proj", "attention.output.dense"),
    (r"mlp\.fc1", "intermediate.dense"),
    (r"mlp\.fc2", "output.dense"),
)
"""The names that the reference changes as it saves: its files keep those of its first version."""


def name_on_disk(name: str) -> str:
    for pattern, saved in SAVED:
        name = re.sub(pattern, saved, name)
    return name


@pytest.mark.slow
@pytest.mark.parametrize("bias", [True, False])
def test_a_vision_transformer_classifies_images_as_its_reference_does(bias: bool) -> None:
    config = ViTConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40, image_size=12, patch_size=4,
        qkv_bias=bias, **REPORTED,
    )  # fmt: skip
    images = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    case = Case(
        VitFamily(), ViTForImageClassification, config, {"pixel_values": images}, {"images": images}, head="classifier",
        overrides=("task=image_classification", "data=digits", "model.num_classes=5"), on_disk=name_on_disk,
    )  # fmt: skip
    check("ViT" if bias else "ViT, queries, keys and values without biases", case)
