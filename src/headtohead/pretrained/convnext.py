"""ConvNeXt (Liu et al. 2022, https://arxiv.org/abs/2201.03545)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.components.convolutions import stage_depths
from headtohead.pretrained.config_fields import by_stage, check_doubling, number_of_channels, square_side
from headtohead.pretrained.model_description import Model, check_describable, described, labels
from headtohead.pretrained.model_family import (
    Architectures,
    Hub,
    HubConfig,
    ModelFamily,
    our_activation,
    their_activation,
)
from headtohead.pretrained.weight_mapping import Renamed, Reshaped, WeightMapping, renamed

_EPS = 1e-6
"""The epsilon of all norms but the last, which config.json does not hold."""
_BLOCK = (
    ("conv", "dwconv"),
    ("norm", "layernorm"),
    ("feedforward.up", "pwconv1"),
    ("feedforward.down", "pwconv2"),
)


class ConvNextFamily(ModelFamily):
    """Its stem is a convolution over patches, and its last norm reads the mean over all places. No weight
    depends on the size of the images, which is that of the data."""

    model_type = "convnext"
    made_of_mixers = False
    architectures: ClassVar[Architectures] = {"ConvNextForImageClassification": "classifier", "ConvNextModel": None}
    prefix = "convnext."
    heads = ("classifier.",)
    synonyms: ClassVar[dict[str, str]] = {"num_hidden_layers": "num_stages"}
    defaults: ClassVar[Hub] = {
        "num_channels": 3,
        "patch_size": 4,
        "num_stages": 4,
        "hidden_sizes": [96, 192, 384, 768],
        "depths": [3, 3, 9, 3],
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-12,
        "layer_scale_init_value": 1e-6,
        "drop_path_rate": 0.0,
    }

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        depths, widths = _depths(hub), _widths(hub)
        return [
            "model=convnext",
            "model/norm=layer_norm",
            f"model.norm.eps={_EPS}",
            f"model.d_model={widths[-1]}",
            f"model.num_layers={sum(depths)}",
            f"model.num_stages={len(depths)}",
            f"model.depths=[{','.join(map(str, depths))}]",
            f"model.patch_size={square_side(hub['patch_size'])}",
            f"model.activation={our_activation(hub['hidden_act'])}",
            f"model.layer_scale={hub['layer_scale_init_value']}",
            f"model.pooled_eps={hub['layer_norm_eps']}",
            f"model.drop_path={hub['drop_path_rate']}",
        ]

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        patch, channels = square_side(hub["patch_size"]), number_of_channels(hub)
        depths, widths = _depths(hub), _widths(hub)
        there = "convnext.embeddings"
        yield Reshaped(
            "layers.0.patches.projection.weight",
            f"{there}.patch_embeddings.weight",
            (widths[0], channels * patch * patch),
            (widths[0], channels, patch, patch),
        )
        yield Renamed("layers.0.patches.projection.bias", f"{there}.patch_embeddings.bias")
        yield from renamed("layers.0.norm", f"{there}.layernorm")
        starts = accumulate((depth + 1 for depth in depths[:-1]), initial=1)
        for stage, (start, depth) in enumerate(zip(starts, depths, strict=True)):
            there = f"convnext.encoder.stages.{stage}"
            if stage:
                yield from renamed(f"layers.{start - 1}.norm", f"{there}.downsampling_layer.0")
                yield from renamed(f"layers.{start - 1}.conv", f"{there}.downsampling_layer.1")
            for block in range(depth):
                yield from _block(f"layers.{start + block}", f"{there}.layers.{block}", hub)
        yield from renamed("pooled_norm", "convnext.layernorm")

    def head_pieces(self, hub: Hub, head: HeadName) -> Iterator[WeightMapping]:
        del hub
        if head == "classifier":
            yield from renamed("head.linear", "classifier")

    def hub_config(self, model: Model) -> HubConfig:
        words = {
            "": ("ConvNext",),
            "norm": ("LayerNorm",),
            "norm.bias": (None, True),
            "norm.eps": (_EPS,),
            "kernel": (7,),
            "multiple": (4,),
            "dropout": (0,),
        }
        check_describable(model, self.model_type, words)
        channels, height, breadth = model["image_shape"]
        depths = stage_depths(model["num_layers"], model["num_stages"], model["depths"])
        return {
            "model_type": self.model_type,
            "num_channels": channels,
            "image_size": height if height == breadth else [height, breadth],
            "patch_size": model["patch_size"],
            "num_stages": len(depths),
            "hidden_sizes": [model["d_model"] // 2 ** (len(depths) - 1 - stage) for stage in range(len(depths))],
            "depths": depths,
            "hidden_act": their_activation(described(model, "activation")),
            "layer_norm_eps": model["pooled_eps"] or _EPS,
            "layer_scale_init_value": model["layer_scale"],
            "drop_path_rate": model["drop_path"],
            **labels(model),
        }


def _block(ours: str, theirs: str, hub: Hub) -> Iterator[WeightMapping]:
    for our_name, their_name in _BLOCK:
        yield from renamed(f"{ours}.{our_name}", f"{theirs}.{their_name}")
    if hub["layer_scale_init_value"] > 0:
        yield Renamed(f"{ours}.gain", f"{theirs}.layer_scale_parameter")


def _depths(hub: Hub) -> list[int]:
    return by_stage(hub, "depths", hub["num_stages"])


def _widths(hub: Hub) -> list[int]:
    widths = by_stage(hub, "hidden_sizes", hub["num_stages"])
    check_doubling("hidden_sizes", widths)
    return widths
