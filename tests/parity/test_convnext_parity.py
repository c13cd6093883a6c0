"""ConvNeXt against `transformers`."""

from __future__ import annotations

import pytest
import torch
from transformers import ConvNextConfig, ConvNextForImageClassification

from headtohead.pretrained.convnext import ConvNextFamily
from parity.parity import Case, check


@pytest.mark.slow
@pytest.mark.parametrize("layer_scale", [1e-6, 0.0])
def test_a_convnext_classifies_images_as_its_reference_does(layer_scale: float) -> None:
    config = ConvNextConfig(
        hidden_sizes=[6, 12, 24], depths=[1, 3, 1], num_stages=3, num_channels=1, patch_size=2, num_labels=5,
        layer_scale_init_value=layer_scale, drop_path_rate=0.1,
    )  # fmt: skip
    images = torch.randn(2, 1, 24, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    case = Case(
        ConvNextFamily(), ConvNextForImageClassification, config, {"pixel_values": images}, {"images": images},
        head="classifier",
        overrides=("task=image_classification", "data=digits", "model.num_classes=5", "model.image_shape=[1,24,16]"),
    )  # fmt: skip
    check("ConvNeXt" if layer_scale else "ConvNeXt, without layer scale", case)
