"""LFM2 (Liquid AI 2025, https://arxiv.org/abs/2511.23404): gated short convolutions, and attention in a few layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from headtohead.pretrained.decoder_family import NUMBERED, Names, PatternedFamily, gated_overrides
from headtohead.pretrained.layer_kinds import EVERYTHING, WINDOWS, LayerKind
from headtohead.pretrained.model_description import Describable, Model, described
from headtohead.pretrained.model_family import Architectures, Hub, HubConfig, feedforward_width, flag
from headtohead.pretrained.weight_mapping import Renamed, Reshaped, WeightMapping, renamed, weight_kinds

_CONVOLUTION = "conv"


class Lfm2Family(PatternedFamily):
    """Root-mean-square norms before each sublayer, a gated feed-forward, and two kinds of mixers."""

    model_type = "lfm2"
    architectures: ClassVar[Architectures] = {"Lfm2ForCausalLM": "language_model", "Lfm2Model": None}
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
    kinds: ClassVar[Mapping[str, LayerKind]] = {
        EVERYTHING: WINDOWS[EVERYTHING],
        _CONVOLUTION: LayerKind("gated_short_conv", "GatedShortConvolution"),
    }
    default_base = 1e6
    eps_field = "norm_eps"
    layer_norms = ("operator_norm", "ffn_norm")
    last_norm = "model.embedding_norm"
    projections: ClassVar[Names] = {**PatternedFamily.projections, "output": "out_proj"}
    score_norms: ClassVar[Names] = {"query": "q_layernorm", "key": "k_layernorm"}
    feedforward_names: ClassVar[Names] = NUMBERED
    feedforward_place = "feed_forward"

    def usual_kinds(self, hub: Hub) -> list[str]:
        """Return which layers are attention where none are listed: those of `full_attn_idxs`, or all of them."""
        layers = range(hub["num_hidden_layers"])
        attention = layers if hub["full_attn_idxs"] is None else hub["full_attn_idxs"]
        return [EVERYTHING if layer in attention else _CONVOLUTION for layer in layers]

    def mixer_fields(self, hub: Hub, kind: str) -> Mapping[str, object]:
        if kind == EVERYTHING:
            return self.attention_overrides(hub)
        return {"kernel": hub["conv_L_cache"], "bias": flag(hub["conv_bias"])}

    def feedforward_overrides(self, hub: Hub) -> list[str]:
        return gated_overrides(hub, self.feedforward[0], _inner_width(hub), "silu")

    def mixer_pieces(self, hub: Hub, layer: int, ours: str, theirs: str) -> Iterator[WeightMapping]:
        if self.layer_kinds(hub)[layer] == EVERYTHING:
            yield from super().mixer_pieces(hub, layer, ours, theirs)
            return
        width, kernel, kinds = hub["hidden_size"], hub["conv_L_cache"], weight_kinds(hub["conv_bias"])
        yield Reshaped(f"{ours}.weight", f"{theirs}.conv.conv.weight", (width, kernel), (width, 1, kernel))
        if hub["conv_bias"]:
            yield Renamed(f"{ours}.bias", f"{theirs}.conv.conv.bias")
        yield from renamed(f"{ours}.input", f"{theirs}.conv.in_proj", kinds)
        yield from renamed(f"{ours}.output", f"{theirs}.conv.out_proj", kinds)

    def config_of_kinds(self, model: Model, by_kind: Mapping[str, Hub]) -> HubConfig:
        convolution = by_kind[_CONVOLUTION]
        return {
            **self.attention_config(model, by_kind[EVERYTHING]),
            "conv_bias": convolution.get("bias", False),
            "conv_L_cache": convolution.get("kernel", self.defaults["conv_L_cache"]),
        }

    def feedforward_config(self, model: Model) -> HubConfig:
        return {"intermediate_size": feedforward_width(model), "block_auto_adjust_ff_dim": False}

    def words(self, model: Model) -> Describable:
        return {**super().words(model), "feedforward.activation": ("silu",)}

    def mixer_words(self, model: Model, path: str) -> Describable:
        words = super().mixer_words(model, path)
        is_attention = described(model, path) == self.kinds[EVERYTHING].made_by
        return {**words, **({f"{path}.bias": (False,), f"{path}.qk_norm": (True,)} if is_attention else {})}


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
