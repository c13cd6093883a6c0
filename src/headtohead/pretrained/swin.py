"""Swin (Liu et al. 2021, https://arxiv.org/abs/2103.14030)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.components.convolutions import stage_depths
from headtohead.pretrained.config_fields import (
    by_stage,
    check_doubling,
    height_and_width,
    number_of_channels,
    square_side,
)
from headtohead.pretrained.model_description import Model, check_describable, described, labels
from headtohead.pretrained.model_family import (
    Accepted,
    Architectures,
    Hub,
    HubConfig,
    InexpressibleError,
    ModelFamily,
    flag,
    our_activation,
    their_activation,
)
from headtohead.pretrained.weight_mapping import Renamed, Reshaped, WeightMapping, renamed

_EPS = 1e-5
"""The epsilon of the norms after patches and between stages, which config.json does not hold."""
_BLOCK = (
    ("mixer.output", "attention.output.dense"),
    ("wiring.norms.0", "layernorm_before"),
    ("feedforward.up", "intermediate.dense"),
    ("feedforward.down", "output.dense"),
    ("wiring.norms.1", "layernorm_after"),
)


class SwinFamily(ModelFamily):
    """Its convolution over patches is a linear map of each; a downsampling belongs to the stage before it."""

    model_type = "swin"
    made_of_mixers = False
    architectures: ClassVar[Architectures] = {
        "SwinForImageClassification": "classifier",
        "SwinForMaskedImageModeling": None,
        "SwinModel": None,
    }
    prefix = "swin."
    heads = ("classifier.", "decoder.", "swin.embeddings.mask_token")
    buffers = (r"swin\..*\.(relative_position_index|attn_mask)",)
    lists: ClassVar[frozenset[str]] = frozenset({"num_heads"})
    synonyms: ClassVar[dict[str, str]] = {"num_attention_heads": "num_heads"}
    accepts: ClassVar[Accepted] = {"use_absolute_embeddings": (False,), "layer_norm_eps": (_EPS,)}
    defaults: ClassVar[Hub] = {
        "image_size": 224,
        "patch_size": 4,
        "num_channels": 3,
        "embed_dim": 96,
        "depths": [2, 2, 6, 2],
        "num_heads": [3, 6, 12, 24],
        "window_size": 7,
        "mlp_ratio": 4.0,
        "qkv_bias": True,
        "hidden_dropout_prob": 0.0,
        "drop_path_rate": 0.1,
        "hidden_act": "gelu",
    }

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        depths, heads, (height, breadth) = _depths(hub), _heads(hub), height_and_width(hub["image_size"])
        return [
            "model=swin",
            "model/norm=layer_norm",
            f"model.norm.eps={_EPS}",
            f"model.d_model={_widths(hub)[-1]}",
            f"model.num_layers={sum(depths)}",
            f"model.num_heads={heads[-1]}",
            f"model.num_stages={len(depths)}",
            f"model.depths=[{','.join(map(str, depths))}]",
            f"model.image_shape=[{number_of_channels(hub)},{height},{breadth}]",
            f"model.patch_size={square_side(hub['patch_size'])}",
            f"model.window={_window(hub)}",
            f"model.qkv_bias={flag(hub['qkv_bias'])}",
            f"model.multiple={hub['mlp_ratio']}",
            f"model.activation={our_activation(hub['hidden_act'])}",
            f"model.dropout={hub['hidden_dropout_prob']}",
            f"model.drop_path={hub['drop_path_rate']}",
        ]

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        patch, channels, width = square_side(hub["patch_size"]), hub["num_channels"], hub["embed_dim"]
        there = "swin.embeddings.patch_embeddings.projection"
        yield Reshaped(
            "patches.projection.weight",
            f"{there}.weight",
            (width, channels * patch * patch),
            (width, channels, patch, patch),
        )
        yield Renamed("patches.projection.bias", f"{there}.bias")
        yield from renamed("embedding_norm", "swin.embeddings.norm")
        depths = _depths(hub)
        starts = accumulate((depth + 1 for depth in depths[:-1]), initial=0)
        for stage, (start, depth) in enumerate(zip(starts, depths, strict=True)):
            there = f"swin.encoder.layers.{stage}"
            for block in range(depth):
                yield from _block(f"layers.{start + block}", f"{there}.blocks.{block}", hub)
            if stage + 1 < len(depths):
                yield from renamed(f"layers.{start + depth}.norm", f"{there}.downsample.norm")
                yield Renamed(f"layers.{start + depth}.reduction.weight", f"{there}.downsample.reduction.weight")
        yield from renamed("final_norm", "swin.layernorm")

    def head_pieces(self, hub: Hub, head: HeadName) -> Iterator[WeightMapping]:
        del hub
        if head == "classifier":
            yield from renamed("head.linear", "classifier")

    def hub_config(self, model: Model) -> HubConfig:
        words = {"": ("Swin",), "norm": ("LayerNorm",), "norm.bias": (None, True), "norm.eps": (_EPS,)}
        check_describable(model, self.model_type, words)
        channels, height, breadth = model["image_shape"]
        depths = stage_depths(model["num_layers"], model["num_stages"], model["depths"])
        halvings = range(len(depths) - 1, -1, -1)
        if model["window"] > (smallest := _last_side((height, breadth), model["patch_size"], len(depths))):
            raise InexpressibleError(
                f"its model.window={model['window']} is wider than its last grid of patches, {smallest} by side, where "
                f"transformers' Swin has smaller windows: train with model.window={smallest}, or on larger images"
            )
        return {
            "model_type": self.model_type,
            "image_size": height if height == breadth else [height, breadth],
            "patch_size": model["patch_size"],
            "num_channels": channels,
            "embed_dim": model["d_model"] // 2 ** halvings[0],
            "depths": depths,
            "num_heads": [model["num_heads"] // 2**halving for halving in halvings],
            "window_size": model["window"],
            "mlp_ratio": model["multiple"],
            "qkv_bias": model["qkv_bias"],
            "hidden_dropout_prob": model["dropout"],
            "attention_probs_dropout_prob": model["dropout"],
            "drop_path_rate": model["drop_path"],
            "hidden_act": their_activation(described(model, "activation")),
            "layer_norm_eps": _EPS,
            "use_absolute_embeddings": False,
            **labels(model),
        }


def _block(ours: str, theirs: str, hub: Hub) -> Iterator[WeightMapping]:
    for name in ("query", "key", "value"):
        for kind in ("weight", "bias") if hub["qkv_bias"] else ("weight",):
            yield Renamed(f"{ours}.mixer.{name}.{kind}", f"{theirs}.attention.self.{name}.{kind}")
    yield Renamed(f"{ours}.mixer.table", f"{theirs}.attention.self.relative_position_bias_table")
    for our_name, their_name in _BLOCK:
        yield from renamed(f"{ours}.{our_name}", f"{theirs}.{their_name}")


def _depths(hub: Hub) -> list[int]:
    return by_stage(hub, "depths", len(hub["depths"]))


def _heads(hub: Hub) -> list[int]:
    heads = by_stage(hub, "num_heads", len(hub["depths"]))
    check_doubling("num_heads", heads)
    return heads


def _widths(hub: Hub) -> list[int]:
    return [hub["embed_dim"] * 2**stage for stage in range(len(hub["depths"]))]


def _window(hub: Hub) -> int:
    """Return the side of a window; its tables say how large it is, and in no stage may a grid be smaller."""
    window = hub["window_size"]
    smallest = _last_side(height_and_width(hub["image_size"]), square_side(hub["patch_size"]), len(hub["depths"]))
    if window > smallest:
        raise InexpressibleError(
            f"its config.json has window_size={window}, and the last grid of patches of its image_size="
            f"{hub['image_size']} has a side of {smallest}: choose a checkpoint for larger images"
        )
    return int(window)


def _last_side(image_size: tuple[int, int], patch: int, num_stages: int) -> int:
    """Return the shorter side of the last stage's grid of patches."""
    return min(image_size) // (patch << (num_stages - 1))
