"""Swin against `transformers`."""

from __future__ import annotations

import re

import pytest
import torch
from transformers import SwinConfig, SwinForImageClassification

from headtohead.pretrained.swin import SwinFamily
from parity.parity import Case, check

SAVED = (
    (r"attention\.q_proj", "attention.self.query"),
    (r"attention\.k_proj", "attention.self.key"),
    (r"attention\.v_proj", "attention.self.value"),
    (r"attention\.o_proj", "attention.output.dense"),
    (r"attention\.relative_position_bias\.", "attention.self."),
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
def test_a_swin_classifies_images_as_its_reference_does(bias: bool) -> None:
    """The first stage has shifted windows in two directions, the second a single row of them, the third just one."""
    config = SwinConfig(
        embed_dim=6, depths=[2, 3, 1], num_heads=[1, 2, 4], window_size=3, image_size=[24, 48], patch_size=2,
        num_labels=5, qkv_bias=bias, attn_implementation="eager",
    )  # fmt: skip
    images = torch.randn(2, 3, 24, 48, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    case = Case(
        SwinFamily(), SwinForImageClassification, config, {"pixel_values": images}, {"images": images},
        head="classifier", overrides=("task=image_classification", "data=digits", "model.num_classes=5"),
        on_disk=name_on_disk,
    )  # fmt: skip
    check("Swin" if bias else "Swin, queries, keys and values without biases", case)
