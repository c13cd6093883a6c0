"""LFM2 (Liquid AI 2025, https://arxiv.org/abs/2511.23404): gated short convolutions, and attention in a few layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.config_fields import (
    listed_kinds,
    mixer_paths,
    pattern_override,
    rope_parameters,
    rotary_differences,
    rotary_fields,
    rotary_overrides,
    shared_fields,
)
from headtohead.pretrained.model_description import Describable, Model, check_describable, described
from headtohead.pretrained.model_family import (
    Accepted,
    Architectures,
    Hub,
    HubConfig,
    ModelFamily,
    feedforward_width,
    flag,
    multiple,
)
from headtohead.pretrained.weight_mapping import Renamed, Reshaped, WeightMapping, renamed

_ATTENTION, _CONVOLUTION = "full_attention", "conv"
_MIXERS = {_ATTENTION: "softmax_attention", _CONVOLUTION: "gated_short_conv"}
_CLASSES = {"SoftmaxAttention": _ATTENTION, "GatedShortConvolution": _CONVOLUTION}
_BASE = 1e6


class Lfm2Family(ModelFamily):
    """Root-mean-square norms before each sublayer, a gated feed-forward, and two kinds of mixers."""

    model_type = "lfm2"
    architectures: ClassVar[Architectures] = {"Lfm2ForCausalLM": "language_model", "Lfm2Model": None}
    length_field = "max_position_embeddings"
    prefix = "model."
    heads = ("lm_head.",)
    buffers = (r".*rotary_emb\.inv_freq",)
    synonyms: ClassVar[Mapping[str, str]] = {
        "tie_embedding": "tie_word_embeddings",
        "block_ff_dim": "intermediate_size",
    }
    defaults: ClassVar[Hub] = {
        "num_key_value_heads": 8,
        "head_dim": None,
        "norm_eps": 1e-5,
        "conv_bias": False,
        "conv_L_cache": 3,
        "block_multiple_of": 256,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": True,
        "full_attn_idxs": None,
        "layer_types": None,
        "tie_word_embeddings": True,
    }

    accepts: ClassVar[Accepted] = {"is_causal": (True,)}

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        width, heads = hub["hidden_size"], hub["num_attention_heads"]
        of_head, kinds = hub["head_dim"] or width // heads, layer_kinds(hub)
        own_width = [] if of_head * heads == width else [f"model.position.head_width={of_head}"]
        attention, convolution = (f"model.mixers.{_MIXERS[kind]}" for kind in (_ATTENTION, _CONVOLUTION))
        of_mixers = {
            _ATTENTION: [
                f"{attention}.bias=false",
                f"{attention}.num_kv_heads={hub['num_key_value_heads']}",
                f"{attention}.head_width={of_head}",
                f"{attention}.qk_norm=true",
                f"{attention}.qk_norm_eps={hub['norm_eps']}",
            ],
            _CONVOLUTION: [
                f"{convolution}.kernel={hub['conv_L_cache']}",
                f"{convolution}.bias={flag(hub['conv_bias'])}",
            ],
        }
        return [
            "model=decoder_only",
            "model/norm=rms_norm",
            "model/residual=pre",
            "model/feedforward=swiglu",
            pattern_override(kinds, _MIXERS),
            *(override for kind in dict.fromkeys(kinds) for override in of_mixers[kind]),
            *rotary_overrides(hub, base=_BASE, width=of_head),
            *own_width,
            f"model.d_model={width}",
            f"model.num_layers={hub['num_hidden_layers']}",
            f"model.num_heads={heads}",
            f"model.vocab_size={hub['vocab_size']}",
            f"model.norm.eps={hub['norm_eps']}",
            "model.feedforward.two_thirds=false",
            multiple(_inner_width(hub), width),
            "model.feedforward.bias=false",
            f"model.tie_weights={flag(hub['tie_word_embeddings'])}",
        ]

    def differences(self, hub: Hub, head: HeadName) -> Iterator[str]:
        del head
        return rotary_differences(hub, _BASE)

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        yield Renamed("embedding.weight", "model.embed_tokens.weight")
        for layer, kind in enumerate(layer_kinds(hub)):
            ours, theirs = f"stack.blocks.{layer}", f"model.layers.{layer}"
            yield Renamed(f"{ours}.wiring.norms.0.scale.weight", f"{theirs}.operator_norm.weight")
            yield Renamed(f"{ours}.wiring.norms.1.scale.weight", f"{theirs}.ffn_norm.weight")
            yield from _MIXER_PIECES[kind](hub, f"{ours}.mixer", theirs)
            for our_name, their_name in (("gate", "w1"), ("up", "w3"), ("down", "w2")):
                yield Renamed(f"{ours}.feedforward.{our_name}.weight", f"{theirs}.feed_forward.{their_name}.weight")
        yield Renamed("stack.final_norm.scale.weight", "model.embedding_norm.weight")

    def head_pieces(self, hub: Hub, head: HeadName) -> Iterator[WeightMapping]:
        if head == "language_model" and not hub["tie_word_embeddings"]:
            yield Renamed("head.weight", "lm_head.weight")

    def tied(self, hub: Hub) -> Mapping[str, str]:
        return {"lm_head.weight": "model.embed_tokens.weight"} if hub["tie_word_embeddings"] else {}

    def hub_config(self, model: Model) -> HubConfig:
        paths = mixer_paths(model)
        check_describable(model, self.model_type, _words(model, paths))
        kinds = {path: _CLASSES[described(model, path)] for path in paths}
        attention = shared_fields(model, [path for path, kind in kinds.items() if kind == _ATTENTION], self.model_type)
        convolution = shared_fields(
            model, [path for path, kind in kinds.items() if kind == _CONVOLUTION], self.model_type
        )
        heads = model["num_heads"]
        return {
            "model_type": self.model_type,
            "architectures": [next(iter(self.architectures))],
            "vocab_size": model["vocab_size"],
            "hidden_size": model["d_model"],
            "num_hidden_layers": model["num_layers"],
            "num_attention_heads": heads,
            "num_key_value_heads": attention.get("num_kv_heads") or heads,
            "head_dim": attention.get("head_width") or model["d_model"] // heads,
            "intermediate_size": feedforward_width(model),
            "block_auto_adjust_ff_dim": False,
            "norm_eps": model["norm"]["eps"],
            "conv_bias": convolution.get("bias", False),
            "conv_L_cache": convolution.get("kernel", self.defaults["conv_L_cache"]),
            "layer_types": [kinds[path] for path in paths],
            **rotary_fields(rope_parameters(model)),
            "max_position_embeddings": model["max_length"],
            "tie_word_embeddings": model["tie_weights"],
        }


def layer_kinds(hub: Hub) -> list[str]:
    """Return which layers are attention: as listed, or those of `full_attn_idxs`, or all of them."""
    if hub["layer_types"] is not None:
        return listed_kinds(hub, _MIXERS)
    layers = range(hub["num_hidden_layers"])
    attention = layers if hub["full_attn_idxs"] is None else hub["full_attn_idxs"]
    return [_ATTENTION if layer in attention else _CONVOLUTION for layer in layers]


def _inner_width(hub: Hub) -> int:
    """Return the inner width of the feed-forward: two thirds of the field's, times a factor, rounded up to a multiple;
    or the field's own."""
    width: int = hub["intermediate_size"]
    if not hub["block_auto_adjust_ff_dim"]:
        return width
    width = int(2 * width / 3)
    if hub["block_ffn_dim_multiplier"] is None:
        return width
    of = hub["block_multiple_of"]
    return int(of * -(-int(hub["block_ffn_dim_multiplier"] * width) // of))


def _attention_pieces(hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
    del hub
    for our_name, their_name in (("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj"), ("output", "out_proj")):
        yield Renamed(f"{ours}.{our_name}.weight", f"{theirs}.self_attn.{their_name}.weight")
    for name in ("query", "key"):
        yield Renamed(f"{ours}.{name}_norm.weight", f"{theirs}.self_attn.{name[0]}_layernorm.weight")


def _convolution_pieces(hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
    width, kernel = hub["hidden_size"], hub["conv_L_cache"]
    kinds = ("weight", "bias") if hub["conv_bias"] else ("weight",)
    yield Reshaped(f"{ours}.weight", f"{theirs}.conv.conv.weight", (width, kernel), (width, 1, kernel))
    if hub["conv_bias"]:
        yield Renamed(f"{ours}.bias", f"{theirs}.conv.conv.bias")
    yield from renamed(f"{ours}.input", f"{theirs}.conv.in_proj", kinds)
    yield from renamed(f"{ours}.output", f"{theirs}.conv.out_proj", kinds)


_MIXER_PIECES = {_ATTENTION: _attention_pieces, _CONVOLUTION: _convolution_pieces}


def _words(model: Model, paths: list[str]) -> Describable:
    """Return what this format can express."""
    words: dict[str, Any] = {
        "": ("DecoderOnly",),
        "local": (None, "Identity"),
        "norm": ("RmsNorm",),
        "residual": ("Pre",),
        "feedforward": ("DenseFeedForward",),
        "feedforward.activation": ("silu",),
        "feedforward.gated": (True,),
        "feedforward.bias": (False,),
        "position.fraction": (1.0,),
        "position.pairing": ("half",),
        "scale_embedding": (False,),
        "embedding_norm": (False,),
        "head_bias": (False,),
    }
    for path in dict.fromkeys(paths):
        words[path] = tuple(_CLASSES)
        if described(model, path) == "SoftmaxAttention":
            words |= {
                f"{path}.bias": (False,),
                f"{path}.output_bias": (None, False),
                f"{path}.qk_norm": (True,),
                f"{path}.qk_norm_eps": (model["norm"].get("eps"),),
                f"{path}.scale": (None,),
            }
    return words
