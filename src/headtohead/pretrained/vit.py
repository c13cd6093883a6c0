"""The vision transformer (Dosovitskiy et al. 2021, https://arxiv.org/abs/2010.11929)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.config_fields import height_and_width, square_side
from headtohead.pretrained.model_description import (
    Model,
    attention_fields,
    block_fields,
    check_describable,
    described,
    labels,
)
from headtohead.pretrained.model_family import (
    Architectures,
    Hub,
    HubConfig,
    ModelFamily,
    feedforward_width,
    flag,
    multiple,
    our_activation,
    their_activation,
)
from headtohead.pretrained.weight_mapping import Renamed, Reshaped, WeightMapping, renamed

_LAYER = (
    ("mixer.output", "attention.output.dense"),
    ("wiring.norms.0", "layernorm_before"),
    ("feedforward.up", "intermediate.dense"),
    ("feedforward.down", "output.dense"),
    ("wiring.norms.1", "layernorm_after"),
)


class VitFamily(ModelFamily):
    """Its convolution over patches is a linear map of each; its class token precedes them."""

    model_type = "vit"
    architectures: ClassVar[Architectures] = {
        "ViTForImageClassification": "classifier",
        "ViTForMaskedImageModeling": None,
        "ViTModel": None,
    }
    prefix = "vit."
    heads = ("classifier.", "decoder.", "vit.pooler.")
    buffers = (r"vit\.embeddings\.position_ids",)
    defaults: ClassVar[Hub] = {
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "layer_norm_eps": 1e-12,
        "image_size": 224,
        "patch_size": 16,
        "num_channels": 3,
        "qkv_bias": True,
    }

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        width, (height, breadth) = hub["hidden_size"], height_and_width(hub["image_size"])
        return [
            "model=vision_transformer",
            "model/mixer=softmax_attention",
            "model/position=learned",
            "model/norm=layer_norm",
            "model/residual=pre",
            "model/feedforward=gelu",
            f"model.d_model={width}",
            f"model.num_layers={hub['num_hidden_layers']}",
            f"model.num_heads={hub['num_attention_heads']}",
            f"model.image_shape=[{hub['num_channels']},{height},{breadth}]",
            f"model.patch_size={square_side(hub['patch_size'])}",
            f"model.mixer.bias={flag(hub['qkv_bias'])}",
            "model.mixer.output_bias=true",
            f"model.norm.eps={hub['layer_norm_eps']}",
            multiple(hub["intermediate_size"], width),
            f"model.feedforward.activation={our_activation(hub['hidden_act'])}",
            f"model.dropout={hub['hidden_dropout_prob']}",
            "model.pooling=cls",
        ]

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        width, patch, channels = hub["hidden_size"], square_side(hub["patch_size"]), hub["num_channels"]
        height, breadth = height_and_width(hub["image_size"])
        num_positions = (height // patch) * (breadth // patch) + 1
        there = "vit.embeddings"
        yield Reshaped("class_token.weight", f"{there}.cls_token", (width,), (1, 1, width))
        yield Reshaped(
            "stack.positions.0.table.weight",
            f"{there}.position_embeddings",
            (num_positions, width),
            (1, num_positions, width),
        )
        yield Reshaped(
            "patches.projection.weight",
            f"{there}.patch_embeddings.projection.weight",
            (width, channels * patch * patch),
            (width, channels, patch, patch),
        )
        yield Renamed("patches.projection.bias", f"{there}.patch_embeddings.projection.bias")
        for layer in range(hub["num_hidden_layers"]):
            ours, theirs = f"stack.blocks.{layer}", f"vit.encoder.layer.{layer}"
            for name in ("query", "key", "value"):
                for kind in ("weight", "bias") if hub["qkv_bias"] else ("weight",):
                    yield Renamed(f"{ours}.mixer.{name}.{kind}", f"{theirs}.attention.attention.{name}.{kind}")
            for our_name, their_name in _LAYER:
                yield from renamed(f"{ours}.{our_name}", f"{theirs}.{their_name}")
        yield from renamed("stack.final_norm", "vit.layernorm")

    def head_pieces(self, hub: Hub, head: HeadName) -> Iterator[WeightMapping]:
        del hub
        if head == "classifier":
            yield from renamed("head.linear", "classifier")

    def hub_config(self, model: Model) -> HubConfig:
        bias = described(model, "mixer.bias")
        words = {
            "": ("VisionTransformer",),
            **block_fields("PreNorm"),
            **attention_fields(model, bias=bias),
            "mixer.output_bias": (True, *((None,) if bias else ())),
            "position": ("Learned",),
            "embedding_norm": (False,),
            "pooling": ("cls",),
        }
        check_describable(model, self.model_type, words)
        channels, height, breadth = model["image_shape"]
        return {
            "model_type": self.model_type,
            "hidden_size": model["d_model"],
            "num_hidden_layers": model["num_layers"],
            "num_attention_heads": model["num_heads"],
            "intermediate_size": feedforward_width(model),
            "hidden_act": their_activation(described(model, "feedforward.activation")),
            "hidden_dropout_prob": model["dropout"],
            "attention_probs_dropout_prob": model["dropout"],
            "layer_norm_eps": described(model, "norm.eps"),
            "image_size": height if height == breadth else [height, breadth],
            "patch_size": model["patch_size"],
            "num_channels": channels,
            "qkv_bias": bias,
            **labels(model),
        }
