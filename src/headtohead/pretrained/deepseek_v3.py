"""DeepSeek-V3 (DeepSeek-AI 2024, https://arxiv.org/abs/2412.19437): latent attention, and many small experts that are
balanced without a loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.components.feedforwards import inner_width
from headtohead.pretrained.config_fields import (
    rope_parameters,
    rotary_differences,
    rotary_fields,
    rotary_overrides,
    score_magnitude,
    weight_of_magnitude,
)
from headtohead.pretrained.model_description import Describable, Model, check_describable, described
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
from headtohead.pretrained.weight_mapping import (
    FreshCounts,
    FusedByHead,
    FusedInBlocks,
    Renamed,
    RolledHeads,
    WeightMapping,
    renamed,
)

_BASE = 10000.0
_LATENT_EPS = 1e-6
"""That of the latents' norms, whatever that of the others."""
_PROJECTIONS = ("gate", "up", "down")


class DeepseekV3Family(ModelFamily):
    """Root-mean-square norms before each sublayer; the first layers have a dense feed-forward, the others experts. The
    published files hold one more layer, which predicts a second token and is not part of the model."""

    model_type = "deepseek_v3"
    architectures: ClassVar[Architectures] = {
        "DeepseekV3ForCausalLM": "language_model",
        "DeepseekV3Model": None,
        "DeepseekV3ForSequenceClassification": None,
        "DeepseekV3ForTokenClassification": None,
    }
    length_field = "max_position_embeddings"
    prefix = "model."
    heads = ("lm_head.", "score.")
    buffers = (r".*rotary_emb\.inv_freq",)
    synonyms: ClassVar[Mapping[str, str]] = {"num_local_experts": "n_routed_experts"}
    defaults: ClassVar[Hub] = {
        "n_shared_experts": 1,
        "n_routed_experts": 256,
        "routed_scaling_factor": 2.5,
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "n_group": 8,
        "topk_group": 4,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 3,
        "norm_topk_prob": True,
        "hidden_act": "silu",
        "moe_intermediate_size": 2048,
        "intermediate_size": 18432,
        "rms_norm_eps": 1e-6,
        "rope_interleave": True,
        "tie_word_embeddings": False,
    }
    accepts: ClassVar[Accepted] = {
        "is_causal": (True,),
        "attention_bias": (False,),
        "norm_topk_prob": (True, False),
        "rope_interleave": (True, False),
        "moe_layer_freq": (1,),
        "scoring_func": ("sigmoid",),
        "topk_method": ("noaux_tc",),
    }

    def complete(self, config: Hub) -> Hub:
        """Complete the configuration; refuse widths of heads that are not those of their parts."""
        hub = super().complete(config)
        turned = hub["qk_rope_head_dim"]
        derived = {
            "num_key_value_heads": hub["num_attention_heads"],
            "head_dim": turned,
            "qk_head_dim": turned + hub["qk_nope_head_dim"],
        }
        for field, value in derived.items():
            if hub.get(field, value) != value:
                raise InexpressibleError(
                    f"its config.json has {field}={hub[field]}, and latent attention of these sizes has {value}: "
                    "correct it or leave it out"
                )
        for field in ("first_k_dense_replace", "n_shared_experts"):
            if type(hub[field]) is not int or hub[field] < 0:
                raise InexpressibleError(
                    f"its config.json has {field}={hub[field]}, which must be a whole number from 0: correct it"
                )
        return hub

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        turned = hub["qk_rope_head_dim"]
        pairing = "interleaved" if hub["rope_interleave"] else "half"
        return [
            "model=decoder_only",
            "model/norm=rms_norm",
            "model/residual=pre",
            "model/mixer=latent_attention",
            *_feedforwards(hub),
            *rotary_overrides(hub, base=_BASE, width=turned, pairing=pairing),
            f"model.position.head_width={turned}",
            f"model.mixer.head_width={turned}",
            f"model.mixer.latent_width={hub['kv_lora_rank']}",
            f"model.mixer.query_latent_width={'null' if hub['q_lora_rank'] is None else hub['q_lora_rank']}",
            f"model.mixer.content_width={hub['qk_nope_head_dim']}",
            f"model.mixer.value_width={hub['v_head_dim']}",
            f"model.mixer.eps={_LATENT_EPS}",
            f"model.mixer.scale={_scale(hub)}",
            f"model.d_model={hub['hidden_size']}",
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
        for layer in range(hub["num_hidden_layers"]):
            ours, theirs = f"stack.blocks.{layer}", f"model.layers.{layer}"
            yield Renamed(f"{ours}.wiring.norms.0.scale.weight", f"{theirs}.input_layernorm.weight")
            yield Renamed(f"{ours}.wiring.norms.1.scale.weight", f"{theirs}.post_attention_layernorm.weight")
            yield from _attention(hub, f"{ours}.mixer", f"{theirs}.self_attn")
            if layer < hub["first_k_dense_replace"]:
                yield from _dense(f"{ours}.feedforward", f"{theirs}.mlp")
            else:
                yield from self.routing(hub, f"{ours}.feedforward", f"{theirs}.mlp")
                yield from self.experts(hub, f"{ours}.feedforward.experts", f"{theirs}.mlp.experts")
        yield Renamed("stack.final_norm.scale.weight", "model.norm.weight")

    def routing(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        """Yield the weights of a layer's router and of its shared experts."""
        yield Renamed(f"{ours}.router.weight", f"{theirs}.gate.weight")
        yield Renamed(f"{ours}.choice_bias", f"{theirs}.gate.e_score_correction_bias")
        yield FreshCounts(f"{ours}.loads_of_step", hub["n_routed_experts"])
        if hub["n_shared_experts"]:
            yield from _dense(f"{ours}.shared", f"{theirs}.shared_experts")

    def experts(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        """Yield the weights of the experts that are chosen."""
        for expert in range(hub["n_routed_experts"]):
            yield from _dense(f"{ours}.{expert}", f"{theirs}.{expert}")

    def beside(self, hub: Hub, head: HeadName) -> tuple[str, ...]:
        """Return the heads, and the layer after the last, which predicts a second token."""
        return (*super().beside(hub, head), f"model.layers.{hub['num_hidden_layers']}.")

    def head_pieces(self, hub: Hub, head: HeadName) -> Iterator[WeightMapping]:
        if head == "language_model" and not hub["tie_word_embeddings"]:
            yield Renamed("head.weight", "lm_head.weight")

    def tied(self, hub: Hub) -> Mapping[str, str]:
        return {"lm_head.weight": "model.embed_tokens.weight"} if hub["tie_word_embeddings"] else {}

    def hub_config(self, model: Model) -> HubConfig:
        check_describable(model, self.model_type, _words(model))
        mixer, width, heads = model["mixer"], model["d_model"], model["num_heads"]
        turned = mixer["head_width"] or width // heads
        content = mixer["content_width"] or turned
        return {
            "model_type": self.model_type,
            "architectures": [next(iter(self.architectures))],
            "vocab_size": model["vocab_size"],
            "hidden_size": width,
            "num_hidden_layers": model["num_layers"],
            "num_attention_heads": heads,
            "num_key_value_heads": heads,
            "kv_lora_rank": mixer["latent_width"] or max(1, width // 4),
            "q_lora_rank": mixer["query_latent_width"],
            "qk_rope_head_dim": turned,
            "qk_nope_head_dim": content,
            "v_head_dim": mixer["value_width"] or turned,
            **_written_feedforwards(model),
            "hidden_act": their_activation(model["feedforward"]["activation"]),
            "max_position_embeddings": model["max_length"],
            "rms_norm_eps": model["norm"]["eps"],
            **rotary_fields(_written_rotation(model, turned + content)),
            "rope_interleave": model["position"]["pairing"] == "interleaved",
            "attention_bias": False,
            "tie_word_embeddings": model["tie_weights"],
        }


def _scale(hub: Hub) -> float | str:
    """Return the scale of the scores; null where it is the usual one."""
    magnitude = score_magnitude(hub, _BASE)
    width = hub["qk_rope_head_dim"] + hub["qk_nope_head_dim"]
    return "null" if magnitude == 1.0 else float(width**-0.5 * magnitude)


def _feedforwards(hub: Hub) -> Iterator[str]:
    """Yield the overrides of the feed-forwards: dense ones in the first layers, experts in the others."""
    early, layers = hub["first_k_dense_replace"], hub["num_hidden_layers"]
    if early >= layers:
        yield from _gated(hub, "feedforward", "swiglu", hub["intermediate_size"])
        return
    if early:
        yield from _gated(hub, "early_feedforward", "swiglu", hub["intermediate_size"])
        yield f"model.num_early_layers={early}"
    yield from _gated(hub, "feedforward", "moe_shared", hub["moe_intermediate_size"])
    routing = {
        "num_experts": hub["n_routed_experts"],
        "experts_per_token": hub["num_experts_per_tok"],
        "num_shared": hub["n_shared_experts"],
        "num_groups": hub["n_group"],
        "groups_per_token": hub["topk_group"],
        "renormalise": flag(hub["norm_topk_prob"]),
        "scale": hub["routed_scaling_factor"],
    }
    yield from (f"model.feedforward.{name}={value}" for name, value in routing.items())


def _gated(hub: Hub, slot: str, choice: str, inner: int) -> Iterator[str]:
    """Yield the overrides of a gated feed-forward of this inner width."""
    yield f"model/feedforward={choice}" if slot == "feedforward" else f"+model/feedforward@model.{slot}={choice}"
    fields = {
        "activation": our_activation(hub["hidden_act"]),
        "multiple": inner / hub["hidden_size"],
        "two_thirds": "false",
        "bias": "false",
    }
    yield from (f"model.{slot}.{name}={value}" for name, value in fields.items())


def _attention(hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
    """Yield the weights of a layer's attention, whose heads end with the rotated part there and begin with it here."""
    heads, turned = hub["num_attention_heads"], hub["qk_rope_head_dim"]
    query = "q_proj" if hub["q_lora_rank"] is None else "q_b_proj"
    if hub["q_lora_rank"] is not None:
        yield Renamed(f"{ours}.query_down.weight", f"{theirs}.q_a_proj.weight")
        yield Renamed(f"{ours}.query_latent_norm.weight", f"{theirs}.q_a_layernorm.weight")
    yield RolledHeads(f"{ours}.query.weight", f"{theirs}.{query}.weight", heads, turned)
    latent_and_key = (f"{ours}.value.weight", f"{ours}.key.weight")
    yield FusedInBlocks(latent_and_key, f"{theirs}.kv_a_proj_with_mqa.weight", (hub["kv_lora_rank"], turned))
    yield Renamed(f"{ours}.latent_norm.weight", f"{theirs}.kv_a_layernorm.weight")
    key_and_value = (f"{ours}.key_up.weight", f"{ours}.value_up.weight")
    sizes = (hub["qk_nope_head_dim"], hub["v_head_dim"])
    yield FusedByHead(key_and_value, f"{theirs}.kv_b_proj.weight", heads, sizes)
    yield Renamed(f"{ours}.output.weight", f"{theirs}.o_proj.weight")


def _dense(ours: str, theirs: str) -> Iterator[WeightMapping]:
    """Yield the weights of a gated feed-forward."""
    for name in _PROJECTIONS:
        yield from renamed(f"{ours}.{name}", f"{theirs}.{name}_proj", ("weight",))


def _written_feedforwards(model: Model) -> HubConfig:
    """Return the fields of the feed-forwards; a model without experts says that all its layers are dense."""
    node, early, layers = model["feedforward"], model.get("num_early_layers") or 0, model["num_layers"]
    if described(model, "feedforward") == "DenseFeedForward":
        return {"first_k_dense_replace": layers, "intermediate_size": _inner(model, "feedforward")}
    dense = {"intermediate_size": _inner(model, "early_feedforward")} if early else {}
    return {
        **dense,
        "first_k_dense_replace": early,
        "moe_intermediate_size": _inner(model, "feedforward"),
        "n_routed_experts": node["num_experts"],
        "num_experts_per_tok": node["experts_per_token"],
        "n_shared_experts": node["num_shared"],
        "n_group": node["num_groups"],
        "topk_group": node["groups_per_token"],
        "norm_topk_prob": node["renormalise"],
        "routed_scaling_factor": node["scale"],
    }


def _inner(model: Model, slot: str) -> int:
    node = model[slot]
    return inner_width(model["d_model"], node["multiple"], two_thirds=node["two_thirds"])


def _written_rotation(model: Model, width: int) -> HubConfig:
    """Return the rotation, with what multiplies the scores beside the root of their width."""
    scale, rope = model["mixer"]["scale"], rope_parameters(model)
    if scale is not None and (weight := weight_of_magnitude(model["position"], scale * width**0.5)) is not None:
        rope["mscale_all_dim"] = weight
    return rope


def _words(model: Model) -> Describable:
    """Return what this format can express."""
    words: dict[str, Sequence[object]] = {
        "": ("DecoderOnly",),
        "pattern": (None,),
        "local": (None, "Identity"),
        "mixer": ("LatentAttention",),
        "mixer.eps": (_LATENT_EPS,),
        "position.fraction": (1.0,),
        "norm": ("RmsNorm",),
        "residual": ("Pre",),
        "feedforward": ("SharedExperts", "DenseFeedForward"),
        "feedforward.gated": (True,),
        "feedforward.bias": (False,),
        "scale_embedding": (None, False),
        "embedding_norm": (None, False),
        "head_bias": (None, False),
    }
    if model.get("num_early_layers"):
        alike = {name: (described(model, f"feedforward.{name}"),) for name in ("activation", "gated", "bias")}
        words |= {"feedforward": ("SharedExperts",), "early_feedforward": ("DenseFeedForward",)}
        words |= {f"early_feedforward.{name}": value for name, value in alike.items()}
    return words
