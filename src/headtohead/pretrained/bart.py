"""BART (Lewis et al. 2020, https://arxiv.org/abs/1910.13461) and mBART (https://arxiv.org/abs/2001.08210)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.model_description import (
    Model,
    attention_fields,
    block_fields,
    check_describable,
    depth,
    described,
    side_fields,
)
from headtohead.pretrained.model_family import (
    ALONE,
    READING,
    Accepted,
    Architectures,
    EncoderDecoderFamily,
    Hub,
    HubConfig,
    InexpressibleError,
    feedforward_width,
    flag,
    multiple,
    our_activation,
    their_activation,
)
from headtohead.pretrained.weight_mapping import OffsetRows, Renamed, Reshaped, WeightMapping, renamed

_ATTENTION = (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("output", "out_proj"))
_SIDES = ("encoder", "decoder")
_EPS = 1e-5
_OFFSET = 2
"""Rows of a position table before that of the first token."""


class BartFamily(EncoderDecoderFamily):
    """The transformer of 2017 with learned positions and a norm after the embeddings; its logits have a bias."""

    model_type = "bart"
    architectures: ClassVar[Architectures] = {
        "BartForConditionalGeneration": "language_model",
        "BartForSequenceClassification": None,
        "BartForQuestionAnswering": None,
        "BartModel": None,
    }
    prefix = "model."
    decoder = "model.decoder."
    heads = ("lm_head.", "final_logits_bias", "classification_head.", "qa_outputs.")
    buffers = (r"model\.(encoder|decoder)\.version",)
    defaults: ClassVar[Hub] = {
        "activation_function": "gelu",
        "dropout": 0.1,
        "scale_embedding": False,
        "tie_word_embeddings": True,
    }
    accepts: ClassVar[Accepted] = {
        "tie_word_embeddings": (True,),
        "normalize_before": (False,),
        "normalize_embedding": (True,),
        "add_final_layer_norm": (False,),
        "static_position_embeddings": (False,),
        "add_bias_logits": (False,),
        "is_causal": (True,),
    }
    synonyms: ClassVar[Mapping[str, str]] = {
        "hidden_size": "d_model",
        "num_attention_heads": "encoder_attention_heads",
        "num_hidden_layers": "encoder_layers",
    }
    residual: ClassVar[tuple[str, str]] = ("post", "PostNorm")
    """Its choice and its class."""

    def complete(self, config: Hub) -> Hub:
        hub = super().complete(config)
        for field in ("attention_heads", "ffn_dim"):
            ours, theirs = hub[f"encoder_{field}"], hub[f"decoder_{field}"]
            if ours != theirs:
                raise InexpressibleError(
                    f"its config.json has encoder_{field}={ours} and decoder_{field}={theirs}, and both sides of ours "
                    "have the same: choose another checkpoint"
                )
        return hub

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        width, length = hub["d_model"], hub["max_position_embeddings"]
        own = [
            "model=encoder_decoder",
            "model/cross=softmax_attention",
            f"model.decoder.num_layers={hub['decoder_layers']}",
            f"model.max_target_length={length}",
            "model.share_embeddings=true",
            "model.tie_weights=true",
            "model.head_bias=true",
        ]
        return [
            *(ALONE if head in READING else own),
            "model/mixer=softmax_attention",
            "model/position=learned",
            "model/norm=layer_norm",
            f"model/residual={self.residual[0]}",
            "model/feedforward=gelu",
            f"model.d_model={width}",
            f"model.num_layers={hub['encoder_layers']}",
            f"model.num_heads={hub['encoder_attention_heads']}",
            f"model.vocab_size={hub['vocab_size']}",
            f"model.max_length={length}",
            f"model.norm.eps={_EPS}",
            multiple(hub["encoder_ffn_dim"], width),
            f"model.feedforward.activation={our_activation(hub['activation_function'])}",
            f"model.dropout={hub['dropout']}",
            f"model.scale_embedding={flag(hub['scale_embedding'])}",
            "model.embedding_norm=true",
        ]

    def embedding(self) -> WeightMapping:
        return Renamed("embedding.weight", "model.shared.weight")

    def side(self, hub: Hub, side: str, ours: str) -> Iterator[WeightMapping]:
        there = f"model.{side}"
        yield OffsetRows(f"{ours}.positions.0.table.weight", f"{there}.embed_positions.weight", _OFFSET)
        yield from renamed(f"{ours}.embedding_norm", f"{there}.layernorm_embedding")
        for layer in range(hub[f"{side}_layers"]):
            yield from _block(f"{ours}.blocks.{layer}", f"{there}.layers.{layer}", side)

    def head_pieces(self, hub: Hub, head: HeadName) -> Iterator[WeightMapping]:
        if head == "language_model":
            size = hub["vocab_size"]
            yield Reshaped("head.bias", "final_logits_bias", (size,), (1, size))

    def tied(self, hub: Hub) -> Mapping[str, str]:
        del hub
        names = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
        return dict.fromkeys(names, "model.shared.weight")

    def hub_config(self, model: Model) -> HubConfig:
        words = {
            "": ("EncoderDecoder",),
            **block_fields(self.residual[1]),
            **attention_fields(model),
            **attention_fields(model, "cross"),
            **side_fields(*_SIDES),
            "position": ("Learned",),
            "norm.eps": (_EPS,),
            "embedding_norm": (True,),
            "share_embeddings": (True,),
            "tie_weights": (True,),
            "head_bias": (True,),
            "scale_logits": (False,),
            "max_target_length": (described(model, "max_length"),),
        }
        check_describable(model, self.model_type, words)
        return {
            "model_type": self.model_type,
            "vocab_size": model["vocab_size"],
            "d_model": model["d_model"],
            **{f"{side}_layers": depth(model, side) for side in _SIDES},
            **{f"{side}_attention_heads": model["num_heads"] for side in _SIDES},
            **{f"{side}_ffn_dim": feedforward_width(model) for side in _SIDES},
            "max_position_embeddings": model["max_length"],
            "activation_function": their_activation(described(model, "feedforward.activation")),
            "dropout": model["dropout"],
            "attention_dropout": model["dropout"],
            "scale_embedding": model["scale_embedding"],
            "is_encoder_decoder": True,
        }


class MbartFamily(BartFamily):
    """BART with norms before each sublayer, and one behind each side's last."""

    model_type = "mbart"
    architectures: ClassVar[Architectures] = {
        "MBartForConditionalGeneration": "language_model",
        "MBartForSequenceClassification": None,
        "MBartForQuestionAnswering": None,
        "MBartModel": None,
    }
    accepts: ClassVar[Accepted] = {"tie_word_embeddings": (True,), "is_causal": (True,)}
    residual = ("pre", "PreNorm")

    def side(self, hub: Hub, side: str, ours: str) -> Iterator[WeightMapping]:
        yield from super().side(hub, side, ours)
        yield from renamed(f"{ours}.final_norm", f"model.{side}.layer_norm")


def _block(ours: str, theirs: str, side: str) -> Iterator[WeightMapping]:
    """Yield the weights of one block; norms come in the order of the sublayers."""
    sublayers = [("mixer", "self_attn"), *([("cross", "encoder_attn")] if side == "decoder" else [])]
    for our_name, their_name in sublayers:
        for our_part, their_part in _ATTENTION:
            yield from renamed(f"{ours}.{our_name}.{our_part}", f"{theirs}.{their_name}.{their_part}")
    yield from renamed(f"{ours}.feedforward.up", f"{theirs}.fc1")
    yield from renamed(f"{ours}.feedforward.down", f"{theirs}.fc2")
    norms = [*(f"{their_name}_layer_norm" for _, their_name in sublayers), "final_layer_norm"]
    for index, norm in enumerate(norms):
        yield from renamed(f"{ours}.wiring.norms.{index}", f"{theirs}.{norm}")
