"""Qwen3-Next (Qwen team 2025, https://qwenlm.github.io/blog/qwen3_next/): gated delta rules, attention with a gated
output in every fourth layer, and experts beside a shared one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.components.feedforwards import inner_width
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
    InexpressibleError,
    ModelFamily,
    choice,
    feedforward_width,
    flag,
    multiple,
)
from headtohead.pretrained.weight_mapping import FusedByHead, OneAbove, Renamed, WeightMapping, renamed

_ATTENTION, _DELTA = "full_attention", "linear_attention"
_MIXERS = {_ATTENTION: "gated_attention", _DELTA: "gated_delta"}
_CLASSES = {"GatedAttention": _ATTENTION, "GatedDelta": _DELTA}
_BASE = 10000.0


class Qwen3NextFamily(ModelFamily):
    """Two kinds of mixers; norms before each sublayer and on queries and keys, whose files hold a gain less one; a part
    of each head of attention turns; all layers have experts, or none has."""

    model_type = "qwen3_next"
    architectures: ClassVar[Architectures] = {
        "Qwen3NextForCausalLM": "language_model",
        "Qwen3NextModel": None,
        "Qwen3NextForSequenceClassification": None,
        "Qwen3NextForTokenClassification": None,
        "Qwen3NextForQuestionAnswering": None,
    }
    length_field = "max_position_embeddings"
    prefix = "model."
    heads = ("lm_head.", "score.", "qa_outputs.")
    buffers = (r".*rotary_emb\.inv_freq", r"mtp\..*")
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

    def complete(self, config: Hub) -> Hub:
        hub = super().complete(config)
        experts = hub["num_experts"]
        if type(experts) is not int or experts < 0:
            raise InexpressibleError(
                f"its config.json has num_experts={experts}, which must be a whole number, 0 for none: correct it"
            )
        if len({_has_experts(hub, layer) for layer in range(hub["num_hidden_layers"])}) > 1:
            raise InexpressibleError(
                f"its config.json has mlp_only_layers={hub['mlp_only_layers']} and decoder_sparse_step="
                f"{hub['decoder_sparse_step']}, so that some layers have experts and others none, and here all layers "
                "have one kind of feed-forward: choose another checkpoint"
            )
        return hub

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        width, of_head, kinds = hub["hidden_size"], hub["head_dim"], layer_kinds(hub)
        rope = hub.get("rope_scaling") or hub.get("rope_parameters") or {}
        turned = int(of_head * rope.get("partial_rotary_factor", hub["partial_rotary_factor"]))
        of_mixers = [
            f"model.mixers.{_MIXERS[kind]}.{field}={value}"
            for kind in dict.fromkeys(kinds)
            for field, value in _FIELDS[kind](hub).items()
        ]
        return [
            "model=decoder_only",
            "model/norm=rms_norm",
            "model/residual=pre",
            *_feedforward_overrides(hub),
            pattern_override(kinds, _MIXERS),
            *of_mixers,
            *rotary_overrides(hub, base=_BASE, width=of_head, rotated=turned),
            f"model.position.head_width={of_head}",
            f"model.d_model={width}",
            f"model.num_layers={hub['num_hidden_layers']}",
            f"model.num_heads={hub['num_attention_heads']}",
            f"model.vocab_size={hub['vocab_size']}",
            f"model.norm.eps={hub['rms_norm_eps']}",
            f"model.tie_weights={flag(hub['tie_word_embeddings'])}",
        ]

    def differences(self, hub: Hub, head: HeadName) -> Iterator[str]:
        del head
        return rotary_differences(hub, _BASE)

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        yield Renamed("embedding.weight", "model.embed_tokens.weight")
        for layer, kind in enumerate(layer_kinds(hub)):
            ours, theirs = f"stack.blocks.{layer}", f"model.layers.{layer}"
            for number, norm in enumerate(("input_layernorm", "post_attention_layernorm")):
                yield OneAbove(f"{ours}.wiring.norms.{number}.scale.weight", f"{theirs}.{norm}.weight")
            yield from _MIXER_PIECES[kind](hub, f"{ours}.mixer", theirs)
            if _has_experts(hub, layer):
                yield from self.experts(hub, f"{ours}.feedforward", f"{theirs}.mlp")
                yield Renamed(f"{ours}.feedforward.router.weight", f"{theirs}.mlp.gate.weight")
                yield Renamed(f"{ours}.feedforward.shared_gate.weight", f"{theirs}.mlp.shared_expert_gate.weight")
                yield from _dense(f"{ours}.feedforward.shared", f"{theirs}.mlp.shared_expert")
            else:
                yield from _dense(f"{ours}.feedforward", f"{theirs}.mlp")
        yield OneAbove("stack.final_norm.scale.weight", "model.norm.weight")

    def experts(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        """Yield the weights of a layer's experts, which files hold one by one."""
        for expert in range(hub["num_experts"]):
            yield from _dense(f"{ours}.experts.{expert}", f"{theirs}.experts.{expert}")

    def head_pieces(self, hub: Hub, head: HeadName) -> Iterator[WeightMapping]:
        if head == "language_model" and not hub["tie_word_embeddings"]:
            yield Renamed("head.weight", "lm_head.weight")

    def tied(self, hub: Hub) -> Mapping[str, str]:
        return {"lm_head.weight": "model.embed_tokens.weight"} if hub["tie_word_embeddings"] else {}

    def hub_config(self, model: Model) -> HubConfig:
        paths = mixer_paths(model)
        check_describable(model, self.model_type, _words(model, paths))
        kinds = [_CLASSES[described(model, path)] for path in paths]
        of_mixers = {
            kind: shared_fields(model, [path for path, its in zip(paths, kinds, strict=True) if its == kind], kind)
            for kind in _MIXERS
        }
        position = rope_parameters(model)
        return {
            "model_type": self.model_type,
            "architectures": [next(iter(self.architectures))],
            "vocab_size": model["vocab_size"],
            "hidden_size": model["d_model"],
            "num_hidden_layers": model["num_layers"],
            "num_attention_heads": model["num_heads"],
            "layer_types": kinds,
            **_attention_config(model, of_mixers[_ATTENTION]),
            **_delta_config(model, of_mixers[_DELTA]),
            **_feedforward_config(model),
            "hidden_act": "silu",
            "rms_norm_eps": model["norm"]["eps"],
            **rotary_fields({**position, "partial_rotary_factor": model["position"]["fraction"]}),
            "max_position_embeddings": model["max_length"],
            "tie_word_embeddings": model["tie_weights"],
        }


def layer_kinds(hub: Hub) -> list[str]:
    """Return which layers are attention: as listed, or the last of every few."""
    if hub["layer_types"] is not None:
        return listed_kinds(hub, _MIXERS)
    every = hub["full_attention_interval"]
    return [_DELTA if (layer + 1) % every else _ATTENTION for layer in range(hub["num_hidden_layers"])]


def _has_experts(hub: Hub, layer: int) -> bool:
    among = (layer + 1) % hub["decoder_sparse_step"] == 0 and layer not in (hub["mlp_only_layers"] or ())
    return hub["num_experts"] > 0 and among


def _feedforward_overrides(hub: Hub) -> list[str]:
    """Return the overrides of the feed-forward: experts beside a shared one, or a gated layer alone."""
    width = hub["hidden_size"]
    plain = ["model.feedforward.two_thirds=false", "model.feedforward.bias=false"]
    if not _has_experts(hub, 0):
        return ["model/feedforward=swiglu", multiple(hub["intermediate_size"], width), *plain]
    return [
        "model/feedforward=moe_gated_shared",
        multiple(hub["moe_intermediate_size"], width),
        f"model.feedforward.shared_multiple={hub['shared_expert_intermediate_size'] / width}",
        f"model.feedforward.num_experts={hub['num_experts']}",
        f"model.feedforward.experts_per_token={hub['num_experts_per_tok']}",
        f"model.feedforward.renormalise={flag(hub['norm_topk_prob'])}",
        f"model.feedforward.balance_weight={hub['router_aux_loss_coef']}",
        "model.feedforward.z_weight=0.0",
        *plain,
    ]


def _feedforward_config(model: Model) -> HubConfig:
    node = model["feedforward"]
    if choice(node) == "DenseFeedForward":
        return {"num_experts": 0, "intermediate_size": feedforward_width(model)}
    shared = node["multiple"] if node["shared_multiple"] is None else node["shared_multiple"]
    return {
        "moe_intermediate_size": feedforward_width(model),
        "shared_expert_intermediate_size": inner_width(model["d_model"], shared, two_thirds=node["two_thirds"]),
        "num_experts": node["num_experts"],
        "num_experts_per_tok": node["experts_per_token"],
        "norm_topk_prob": node["renormalise"],
        "router_aux_loss_coef": node["balance_weight"],
    }


def _attention_fields(hub: Hub) -> dict[str, object]:
    return {
        "bias": flag(hub["attention_bias"]),
        "num_kv_heads": hub["num_key_value_heads"],
        "head_width": hub["head_dim"],
        "qk_norm": "true",
        "qk_norm_eps": hub["rms_norm_eps"],
    }


def _attention_config(model: Model, mixer: HubConfig) -> HubConfig:
    heads = model["num_heads"]
    return {
        "attention_bias": mixer.get("bias", False),
        "num_key_value_heads": mixer.get("num_kv_heads") or heads,
        "head_dim": mixer.get("head_width") or model["position"]["head_width"] or model["d_model"] // heads,
    }


def _delta_fields(hub: Hub) -> dict[str, object]:
    return {
        "num_value_heads": hub["linear_num_value_heads"],
        "num_key_heads": hub["linear_num_key_heads"],
        "key_width": hub["linear_key_head_dim"],
        "value_width": hub["linear_value_head_dim"],
        "conv": hub["linear_conv_kernel_dim"],
        "norm_eps": hub["rms_norm_eps"],
    }


def _delta_config(model: Model, mixer: HubConfig) -> HubConfig:
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


_FIELDS = {_ATTENTION: _attention_fields, _DELTA: _delta_fields}


def _attention_pieces(hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
    kinds = ("weight", "bias") if hub["attention_bias"] else ("weight",)
    for kind in kinds:  # a head's gate is below its query
        pair = (f"{ours}.query.{kind}", f"{ours}.gate.{kind}")
        yield FusedByHead(pair, f"{theirs}.self_attn.q_proj.{kind}", hub["num_attention_heads"])
    for name in ("key", "value", "output"):
        yield from renamed(f"{ours}.{name}", f"{theirs}.self_attn.{name[0]}_proj", kinds)
    for name in ("query", "key"):
        yield OneAbove(f"{ours}.{name}_norm.weight", f"{theirs}.self_attn.{name[0]}_norm.weight")


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


_MIXER_PIECES = {_ATTENTION: _attention_pieces, _DELTA: _delta_pieces}


def _dense(ours: str, theirs: str) -> Iterator[WeightMapping]:
    """Yield the weights of a gated layer."""
    for name in ("gate", "up", "down"):
        yield Renamed(f"{ours}.{name}.weight", f"{theirs}.{name}_proj.weight")


def _words(model: Model, paths: list[str]) -> Describable:
    """Return what this format can express."""
    words: dict[str, Sequence[object]] = {
        "": ("DecoderOnly",),
        "local": (None, "Identity"),
        "position.pairing": ("half",),
        "norm": ("RmsNorm",),
        "residual": ("Pre",),
        "feedforward": ("GatedSharedExpert", "DenseFeedForward"),
        "feedforward.activation": ("silu",),
        "feedforward.gated": (True,),
        "feedforward.bias": (False,),
        "scale_embedding": (False,),
        "embedding_norm": (False,),
        "head_bias": (False,),
    }
    for path in dict.fromkeys(paths):
        words[path] = tuple(_CLASSES)
        eps = (model["norm"].get("eps"),)
        if described(model, path) == "GatedAttention":
            words |= {f"{path}.qk_norm": (True,), f"{path}.qk_norm_eps": eps}
        else:
            words |= {f"{path}.norm_eps": eps, f"{path}.gate": (True,), f"{path}.negative_eigenvalues": (False,)}
    return words
