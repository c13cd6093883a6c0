"""Kimi Linear (Kimi Team 2025, https://arxiv.org/abs/2510.26692): Kimi delta rules, and latent attention without
positions in every fourth layer, over the feed-forwards of DeepSeek-V3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from headtohead.pretrained.decoder_family import NUMBERED, Names, PatternedFamily
from headtohead.pretrained.deepseek_v3 import LATENT_EPS, DeepseekV3Family
from headtohead.pretrained.layer_kinds import EVERYTHING, LayerKind
from headtohead.pretrained.model_description import Describable, Model, described
from headtohead.pretrained.model_family import Accepted, Architectures, Hub, HubConfig, InexpressibleError
from headtohead.pretrained.weight_mapping import JoinedRows, Renamed, Reshaped, WeightMapping
from headtohead.pretrained.without_positions import WithoutPositions

_DELTA = "linear_attention"
_OF_DELTA = {
    "head_dim": "linear_head_dim",
    "num_heads": "linear_num_heads",
    "short_conv_kernel_size": "linear_conv_kernel_dim",
}
"""The fields of `linear_attn_config`, which count where there are two, with their names outside it."""
_DENSE, _EXPERTS = "mlp", "block_sparse_moe"
_MOST_LAYERS = 256


class KimiLinearFamily(WithoutPositions, DeepseekV3Family, PatternedFamily):
    """Root-mean-square norms before each sublayer; the first layers have a dense feed-forward, the others experts."""

    model_type = "kimi_linear"
    architectures: ClassVar[Architectures] = {"KimiLinearForCausalLM": "language_model", "KimiLinearModel": None}
    synonyms: ClassVar[Mapping[str, str]] = {
        "model_max_length": "max_position_embeddings",
        "moe_renormalize": "norm_topk_prob",
        "num_expert_group": "n_group",
        "num_experts": "num_local_experts",
        "num_experts_per_token": "num_experts_per_tok",
        "num_shared_experts": "n_shared_experts",
    }
    defaults: ClassVar[Hub] = {
        **{name: value for name, value in DeepseekV3Family.defaults.items() if name != "n_routed_experts"},
        "num_local_experts": 256,
        "routed_scaling_factor": 2.446,
        "q_lora_rank": None,
        "n_group": 1,
        "topk_group": 1,
        "moe_intermediate_size": 1024,
        "intermediate_size": 9216,
        "rms_norm_eps": 1e-5,
        "first_k_dense_replace": 1,
        "mlp_layer_types": None,
        "layer_types": None,
        "linear_attn_config": {},
        "linear_head_dim": 128,
        "linear_num_heads": 32,
        "linear_conv_kernel_dim": 4,
    }
    accepts: ClassVar[Accepted] = {
        "is_causal": (True,),
        "attention_bias": (False,),
        "norm_topk_prob": (True, False),
        "hidden_act": ("silu", "swish"),
        "moe_layer_freq": (1,),
        "moe_router_activation_func": ("sigmoid",),
        "mla_use_nope": (True,),
        "tie_word_embeddings": (False,),
    }
    kinds: ClassVar[Mapping[str, LayerKind]] = {
        EVERYTHING: LayerKind("latent_attention", "LatentAttention"),
        _DELTA: LayerKind("kimi_delta", "KimiDelta"),
    }
    aliases: ClassVar[Mapping[str, str]] = {
        f"model.layers.{layer}.{_EXPERTS}.{part}": f"model.layers.{layer}.{_DENSE}.{part}"
        for layer in range(_MOST_LAYERS)
        for part in ("gate_proj.weight", "up_proj.weight", "down_proj.weight")
    }
    """Dense layers, which transformers writes by the name of experts."""
    experts_field = "num_local_experts"
    expert_names: ClassVar[Names] = NUMBERED

    def complete(self, config: Hub) -> Hub:
        """Complete the configuration; what `linear_attn_config` holds counts before what stands beside it."""
        within = config.get("linear_attn_config", {})
        inside = {field: within[name] for name, field in _OF_DELTA.items() if name in within}
        hub = super().complete({**config, **inside})
        return {**hub, "first_k_dense_replace": _num_dense(hub)}

    def derived(self, hub: Hub) -> HubConfig:
        """Return the fields that follow from others; published files hold a `head_dim` that nothing reads."""
        return {field: value for field, value in super().derived(hub).items() if field != "head_dim"}

    def layer_kinds(self, hub: Hub) -> list[str]:
        """Return the kind of each layer, as listed in one of two ways, or attention in every fourth but the first."""
        lists, layers = hub["linear_attn_config"], range(hub["num_hidden_layers"])
        if hub["layer_types"] is not None or not {"full_attn_layers", "kda_layers"} <= lists.keys():
            return super().layer_kinds(hub)
        attention, delta = lists["full_attn_layers"], lists["kda_layers"]
        if sorted((*attention, *delta)) != [layer + 1 for layer in layers]:
            raise InexpressibleError(
                f"its config.json has full_attn_layers={attention} and kda_layers={delta}, which must name each of its "
                f"{len(layers)} layers once, from 1: correct it"
            )
        return [EVERYTHING if layer + 1 in attention else _DELTA for layer in layers]

    def usual_kinds(self, hub: Hub) -> list[str]:
        return [EVERYTHING if layer and layer % 4 == 0 else _DELTA for layer in range(hub["num_hidden_layers"])]

    def mixer_fields(self, hub: Hub, kind: str) -> Mapping[str, object]:
        if kind == EVERYTHING:
            return self.attention_overrides(hub)
        width = hub["linear_head_dim"]
        return {
            "num_value_heads": hub["linear_num_heads"],
            "key_width": width,
            "value_width": width,
            "conv": hub["linear_conv_kernel_dim"],
            "norm_eps": hub["rms_norm_eps"],
        }

    def mixer_overrides(self, hub: Hub) -> list[str]:
        return PatternedFamily.mixer_overrides(self, hub)

    def score_scale(self, hub: Hub) -> str:
        """Return null: scores are divided by the root of their width alone."""
        del hub
        return "null"

    def mixer_pieces(self, hub: Hub, layer: int, ours: str, theirs: str) -> Iterator[WeightMapping]:
        if self.layer_kinds(hub)[layer] == EVERYTHING:
            yield from super().mixer_pieces(hub, layer, ours, theirs)
            return
        theirs, heads = f"{theirs}.self_attn", hub["linear_num_heads"]
        for name, their_name in _MAPS.items():
            yield Renamed(f"{ours}.{name}.weight", f"{theirs}.{their_name}.weight")
        yield Renamed(f"{ours}.decay_bias", f"{theirs}.dt_bias")
        yield Reshaped(f"{ours}.log_strength", f"{theirs}.A_log", (heads,), (1, 1, heads, 1))
        yield self.convolution(hub, f"{ours}.conv.weight", theirs)

    def convolution(self, hub: Hub, ours: str, theirs: str) -> WeightMapping:
        """Return the mapping of the convolution over queries, keys and values, which files hold apart."""
        width = hub["linear_num_heads"] * hub["linear_head_dim"]
        return JoinedRows(ours, tuple(f"{theirs}.{name}_conv1d.weight" for name in "qkv"), (width, width, width))

    def feedforward_pieces(self, hub: Hub, layer: int, ours: str, theirs: str) -> Iterator[WeightMapping]:
        is_dense = layer < hub["first_k_dense_replace"]
        stem = theirs if is_dense else f"{theirs.removesuffix(_DENSE)}{_EXPERTS}"
        return super().feedforward_pieces(hub, layer, ours, stem)

    def mixer_config(self, model: Model) -> HubConfig:
        return PatternedFamily.mixer_config(self, model)

    def kinds_config(self, kinds: Sequence[str]) -> HubConfig:
        """Return the layers of each kind as published files list them, from 1."""
        attention = [layer for layer, kind in enumerate(kinds, 1) if kind == EVERYTHING]
        delta = [layer for layer, kind in enumerate(kinds, 1) if kind == _DELTA]
        return {"linear_attn_config": {"full_attn_layers": attention, "kda_layers": delta}}

    def config_of_kinds(self, model: Model, by_kind: Mapping[str, Hub]) -> HubConfig:
        heads, delta = {"num_key_value_heads": model["num_heads"]}, by_kind[_DELTA]
        attention = self.attention_config(model, by_kind[EVERYTHING]) if by_kind[EVERYTHING] else heads
        if not delta:
            return attention
        of_head = model["d_model"] // model["num_heads"]
        return {
            **attention,
            "linear_num_heads": delta["num_value_heads"] or model["num_heads"],
            "linear_head_dim": delta["key_width"] or round(delta["key_ratio"] * of_head),
            "linear_conv_kernel_dim": delta["conv"],
        }

    def hub_config(self, model: Model) -> HubConfig:
        """Return config.json in the names of published files, with the sizes of delta rules within their own field."""
        published = {field: name for name, field in self.synonyms.items()}
        config = {published.get(field, field): value for field, value in super().hub_config(model).items()}
        sizes = {name: config.pop(field) for name, field in _OF_DELTA.items() if field in config}
        return {
            **config,
            "linear_attn_config": {**config["linear_attn_config"], **sizes},
            "mla_use_nope": True,
            **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id")),
        }

    def words(self, model: Model) -> Describable:
        return {**super().words(model), "tie_weights": (False,)}

    def mixer_words(self, model: Model, path: str) -> Describable:
        words = PatternedFamily.mixer_words(self, model, path)
        if described(model, path) == self.kinds[EVERYTHING].made_by:
            return {**words, f"{path}.eps": (LATENT_EPS,), f"{path}.scale": (None,)}
        heads, width = described(model, f"{path}.num_value_heads"), described(model, f"{path}.key_width")
        return {
            **words,
            f"{path}.num_key_heads": (None, heads),
            f"{path}.value_width": (width,),
            f"{path}.value_ratio": (described(model, f"{path}.key_ratio"),),
            f"{path}.rank": (None, width),
            f"{path}.norm_eps": (described(model, "norm.eps"),),
        }


_MAPS: Names = {
    **{name: f"{name[0]}_proj" for name in ("query", "key", "value")},
    "rate": "b_proj",
    "decay_down": "f_a_proj",
    "decay_up": "f_b_proj",
    "gate_down": "g_a_proj",
    "gate_up": "g_b_proj",
    "norm": "o_norm",
    "output": "o_proj",
}
"""The maps of a delta rule, and the norm of what it reads."""


def _num_dense(hub: Hub) -> int:
    """Return how many layers have a dense feed-forward, which are the first of all that are listed."""
    kinds, layers = hub["mlp_layer_types"], hub["num_hidden_layers"]
    if kinds is None:
        early: int = hub["first_k_dense_replace"]
        return early
    dense = list(kinds).count("dense")
    if list(kinds) != ["dense"] * dense + ["sparse"] * (layers - dense):
        raise InexpressibleError(
            f"its config.json has mlp_layer_types={kinds}, which must be dense in the first of its {layers} layers and "
            "sparse in the others: choose another checkpoint"
        )
    return dense
