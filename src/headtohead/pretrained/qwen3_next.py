"""Qwen3-Next (Qwen team 2025, https://qwenlm.github.io/blog/qwen3_next/): gated delta rules, attention with a gated
output in every fourth layer, and experts beside a shared one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from headtohead.components.feedforwards import inner_width
from headtohead.pretrained.config_fields import rope_parameters, rotary_fields
from headtohead.pretrained.decoder_family import Names, PatternedFamily, gated_pieces
from headtohead.pretrained.layer_kinds import EVERYTHING, LayerKind, feedforward_paths, node_at
from headtohead.pretrained.model_description import Describable, Model, described
from headtohead.pretrained.model_family import (
    Accepted,
    Architectures,
    Hub,
    HubConfig,
)
from headtohead.pretrained.qwen3_moe import QwenExperts
from headtohead.pretrained.weight_mapping import FusedByHead, Renamed, UnitOffsetGain, WeightMapping, weight_kinds

_DELTA = "linear_attention"


class Qwen3NextFamily(QwenExperts, PatternedFamily):
    """Two kinds of mixers; norms before each sublayer and on queries and keys, whose files hold a gain less one; a part
    of each head of attention turns; all layers have experts, or none has, or some have."""

    model_type = "qwen3_next"
    architectures: ClassVar[Architectures] = {
        "Qwen3NextForCausalLM": "language_model",
        "Qwen3NextModel": None,
        "Qwen3NextForSequenceClassification": None,
        "Qwen3NextForTokenClassification": None,
        "Qwen3NextForQuestionAnswering": None,
    }
    buffers: ClassVar[tuple[str, ...]] = (*PatternedFamily.buffers, r"mtp\..*")
    defaults: ClassVar[Hub] = {
        "hidden_act": "silu",
        "num_key_value_heads": 2,
        "head_dim": 256,
        "attention_bias": False,
        "rms_norm_eps": 1e-6,
        "partial_rotary_factor": 0.25,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "decoder_sparse_step": 1,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "num_experts_per_tok": 10,
        "num_experts": 512,
        "norm_topk_prob": True,
        "router_aux_loss_coef": 0.001,
        "mlp_only_layers": None,
        "full_attention_interval": 4,
        "layer_types": None,
        "tie_word_embeddings": False,
    }
    accepts: ClassVar[Accepted] = {"is_causal": (True,), "hidden_act": ("silu", "swish")}
    kinds: ClassVar[Mapping[str, LayerKind]] = {
        EVERYTHING: LayerKind("gated_attention", "GatedAttention"),
        _DELTA: LayerKind("gated_delta", "GatedDelta"),
    }
    every = "full_attention_interval"
    bias_fields: ClassVar[tuple[str, ...]] = ("attention_bias",)
    gain = UnitOffsetGain
    # The map of queries holds their gates too.
    projections: ClassVar[Names] = {name: f"{name[0]}_proj" for name in ("key", "value", "output")}
    score_norms: ClassVar[Names] = {"query": "q_norm", "key": "k_norm"}
    feedforward = ("moe_gated_shared", "GatedSharedExpert")

    def rotated(self, hub: Hub) -> int:
        rope = hub.get("rope_scaling") or hub.get("rope_parameters") or {}
        share: Any = rope.get("partial_rotary_factor", hub["partial_rotary_factor"])
        return int(self.head_width(hub) * share)

    def mixer_fields(self, hub: Hub, kind: str) -> Mapping[str, object]:
        if kind == EVERYTHING:
            return self.attention_overrides(hub)
        return {
            "num_value_heads": hub["linear_num_value_heads"],
            "num_key_heads": hub["linear_num_key_heads"],
            "key_width": hub["linear_key_head_dim"],
            "value_width": hub["linear_value_head_dim"],
            "conv": hub["linear_conv_kernel_dim"],
            "norm_eps": hub["rms_norm_eps"],
        }

    def expert_fields(self, hub: Hub) -> Mapping[str, object]:
        shared = hub["shared_expert_intermediate_size"] / hub["hidden_size"]
        return {**super().expert_fields(hub), "shared_multiple": shared}

    def mixer_pieces(self, hub: Hub, layer: int, ours: str, theirs: str) -> Iterator[WeightMapping]:
        is_attention = self.layer_kinds(hub)[layer] == EVERYTHING
        return super().mixer_pieces(hub, layer, ours, theirs) if is_attention else _delta_pieces(hub, ours, theirs)

    def attention(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        for kind in weight_kinds(hub["attention_bias"]):  # a head's gate is below its query
            pair = (f"{ours}.query.{kind}", f"{ours}.gate.{kind}")
            yield FusedByHead(pair, f"{theirs}.q_proj.{kind}", hub["num_attention_heads"])
        yield from super().attention(hub, ours, theirs)

    def expert_pieces(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        yield from super().expert_pieces(hub, ours, theirs)
        yield Renamed(f"{ours}.shared_gate.weight", f"{theirs}.shared_expert_gate.weight")
        yield from gated_pieces(f"{ours}.shared", f"{theirs}.shared_expert")

    def config_of_kinds(self, model: Model, by_kind: Mapping[str, Hub]) -> HubConfig:
        return {**self.attention_config(model, by_kind[EVERYTHING]), **_delta_config(model, by_kind[_DELTA])}

    def feedforward_config(self, model: Model) -> HubConfig:
        config = super().feedforward_config(model)
        experts = [node for path in feedforward_paths(model) if "shared_multiple" in (node := node_at(model, path))]
        if not experts:
            return config
        shared = experts[0]["multiple"] if experts[0]["shared_multiple"] is None else experts[0]["shared_multiple"]
        inner = inner_width(model["d_model"], shared, two_thirds=experts[0]["two_thirds"])
        return {**config, "shared_expert_intermediate_size": inner}

    def position_config(self, model: Model) -> HubConfig:
        return rotary_fields({**rope_parameters(model), "partial_rotary_factor": model["position"]["fraction"]})

    def feedforward_words(self) -> Describable:
        return {**super().feedforward_words(), "activation": ("silu",)}

    def mixer_words(self, model: Model, path: str) -> Describable:
        words = super().mixer_words(model, path)
        is_attention = described(model, path) == self.kinds[EVERYTHING].made_by
        return {**words, **({f"{path}.qk_norm": (True,)} if is_attention else {f"{path}.gate": (True,)})}


def _delta_config(model: Model, mixer: Hub) -> HubConfig:
    if not mixer:
        return {}
    of_head = model["d_model"] // model["num_heads"]
    values = mixer["num_value_heads"] or model["num_heads"]
    return {
        "linear_num_value_heads": values,
        "linear_num_key_heads": mixer["num_key_heads"] or values,
        "linear_key_head_dim": mixer["key_width"] or round(mixer["key_ratio"] * of_head),
        "linear_value_head_dim": mixer["value_width"] or round(mixer["value_ratio"] * of_head),
        "linear_conv_kernel_dim": mixer["conv"],
    }


def _delta_pieces(hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
    heads, theirs = hub["linear_num_key_heads"], f"{theirs}.linear_attn"
    keys, values = hub["linear_key_head_dim"], hub["linear_num_value_heads"] // heads * hub["linear_value_head_dim"]
    names = tuple(f"{ours}.{name}.weight" for name in ("query", "key", "value", "gate"))
    yield FusedByHead(names, f"{theirs}.in_proj_qkvz.weight", heads, (keys, keys, values, values))
    yield FusedByHead((f"{ours}.rate.weight", f"{ours}.decay.weight"), f"{theirs}.in_proj_ba.weight", heads)
    yield Renamed(f"{ours}.conv.weight", f"{theirs}.conv1d.weight")
    yield Renamed(f"{ours}.decay_bias", f"{theirs}.dt_bias")
    yield Renamed(f"{ours}.log_strength", f"{theirs}.A_log")
    yield Renamed(f"{ours}.norm.weight", f"{theirs}.norm.weight")
    yield Renamed(f"{ours}.output.weight", f"{theirs}.out_proj.weight")
