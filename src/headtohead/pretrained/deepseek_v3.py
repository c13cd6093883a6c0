"""DeepSeek-V3 (DeepSeek-AI 2024, https://arxiv.org/abs/2412.19437): latent attention, and many small experts that are
balanced without a loss."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.config_fields import (
    rope_parameters,
    rotary_fields,
    rotary_overrides,
    score_magnitude,
    weight_of_magnitude,
)
from headtohead.pretrained.decoder_family import DecoderFamily, gated_overrides, gated_pieces
from headtohead.pretrained.model_description import Describable, Model, described
from headtohead.pretrained.model_family import (
    Accepted,
    Architectures,
    Hub,
    HubConfig,
    InexpressibleError,
    feedforward_width,
    flag,
    their_activation,
)
from headtohead.pretrained.weight_mapping import (
    FusedByHead,
    FusedInBlocks,
    PermutedHeadRows,
    Renamed,
    WeightMapping,
    ZeroedBuffer,
)

LATENT_EPS = 1e-6
"""That of the latents' norms, whatever that of the others."""


class DeepseekV3Family(DecoderFamily):
    """Root-mean-square norms before each sublayer; the first layers have a dense feed-forward, the others experts. The
    published files hold one more layer, which predicts a second token and is not part of the model."""

    model_type = "deepseek_v3"
    architectures: ClassVar[Architectures] = {
        "DeepseekV3ForCausalLM": "language_model",
        "DeepseekV3Model": None,
        "DeepseekV3ForSequenceClassification": None,
        "DeepseekV3ForTokenClassification": None,
    }
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
    feedforward = ("moe_shared", "SharedExperts")
    experts_field = "n_routed_experts"

    def complete(self, config: Hub) -> Hub:
        """Complete the configuration; refuse widths of heads that are not those of their parts."""
        hub = super().complete(config)
        for field, value in self.derived(hub).items():
            if hub.get(field) not in (None, value):
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

    def derived(self, hub: Hub) -> HubConfig:
        """Return the fields that follow from others, and must agree with them where a file holds them."""
        turned = hub["qk_rope_head_dim"]
        width = turned + hub["qk_nope_head_dim"]
        return {"num_key_value_heads": hub["num_attention_heads"], "head_dim": turned, "qk_head_dim": width}

    def mixer_overrides(self, hub: Hub) -> list[str]:
        fields = self.attention_overrides(hub)
        return ["model/mixer=latent_attention", *(f"model.mixer.{name}={value}" for name, value in fields.items())]

    def attention_overrides(self, hub: Hub) -> dict[str, object]:
        return {
            "head_width": hub["qk_rope_head_dim"],
            "latent_width": hub["kv_lora_rank"],
            "query_latent_width": "null" if hub["q_lora_rank"] is None else hub["q_lora_rank"],
            "content_width": hub["qk_nope_head_dim"],
            "value_width": hub["v_head_dim"],
            "eps": LATENT_EPS,
            "scale": self.score_scale(hub),
        }

    def score_scale(self, hub: Hub) -> float | str:
        """Return the scale of the scores; null where it is the usual one."""
        magnitude = score_magnitude(hub, self.default_base)
        width = hub["qk_rope_head_dim"] + hub["qk_nope_head_dim"]
        return "null" if magnitude == 1.0 else float(width**-0.5 * magnitude)

    def position_overrides(self, hub: Hub) -> list[str]:
        turned = hub["qk_rope_head_dim"]
        pairing = "interleaved" if hub["rope_interleave"] else "half"
        overrides = rotary_overrides(hub, base=self.default_base, width=turned, pairing=pairing)
        return [*overrides, f"model.position.head_width={turned}"]

    def feedforward_overrides(self, hub: Hub) -> list[str]:
        """Return the overrides of the feed-forwards: dense ones in the first layers, experts in the others."""
        early, layers, activation = hub["first_k_dense_replace"], hub["num_hidden_layers"], self.activation(hub)
        if early >= layers:
            return gated_overrides(hub, "swiglu", hub["intermediate_size"], activation)
        overrides = gated_overrides(hub, self.feedforward[0], hub["moe_intermediate_size"], activation)
        if early:
            slot = "early_feedforward"
            overrides += gated_overrides(hub, "swiglu", hub["intermediate_size"], activation, slot=slot)
            overrides.append(f"model.num_early_layers={early}")
        routing = {
            "num_experts": hub[self.experts_field],
            "experts_per_token": hub["num_experts_per_tok"],
            "num_shared": hub["n_shared_experts"],
            "num_groups": hub["n_group"],
            "groups_per_token": hub["topk_group"],
            "renormalise": flag(hub["norm_topk_prob"]),
            "scale": hub["routed_scaling_factor"],
        }
        return [*overrides, *(f"model.feedforward.{name}={value}" for name, value in routing.items())]

    def attention(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        """Yield the weights of a layer's attention, whose heads end with the rotated part there and begin with it
        here."""
        heads, turned = hub["num_attention_heads"], hub["qk_rope_head_dim"]
        query = "q_proj" if hub["q_lora_rank"] is None else "q_b_proj"
        if hub["q_lora_rank"] is not None:
            yield Renamed(f"{ours}.query_down.weight", f"{theirs}.q_a_proj.weight")
            yield Renamed(f"{ours}.query_latent_norm.weight", f"{theirs}.q_a_layernorm.weight")
        yield PermutedHeadRows(f"{ours}.query.weight", f"{theirs}.{query}.weight", heads, turned)
        latent_and_key = (f"{ours}.value.weight", f"{ours}.key.weight")
        yield FusedInBlocks(latent_and_key, f"{theirs}.kv_a_proj_with_mqa.weight", (hub["kv_lora_rank"], turned))
        yield Renamed(f"{ours}.latent_norm.weight", f"{theirs}.kv_a_layernorm.weight")
        key_and_value = (f"{ours}.key_up.weight", f"{ours}.value_up.weight")
        sizes = (hub["qk_nope_head_dim"], hub["v_head_dim"])
        yield FusedByHead(key_and_value, f"{theirs}.kv_b_proj.weight", heads, sizes)
        yield Renamed(f"{ours}.output.weight", f"{theirs}.o_proj.weight")

    def feedforward_pieces(self, hub: Hub, layer: int, ours: str, theirs: str) -> Iterator[WeightMapping]:
        if layer < hub["first_k_dense_replace"]:
            yield from gated_pieces(ours, theirs)
            return
        yield Renamed(f"{ours}.router.weight", f"{theirs}.gate.weight")
        yield Renamed(f"{ours}.choice_bias", f"{theirs}.gate.e_score_correction_bias")
        yield ZeroedBuffer(f"{ours}.loads_of_step", hub[self.experts_field])
        if hub["n_shared_experts"]:
            yield from gated_pieces(f"{ours}.shared", f"{theirs}.shared_experts")
        yield from self.experts(hub, f"{ours}.experts", f"{theirs}.experts")

    def beside(self, hub: Hub, head: HeadName) -> tuple[str, ...]:
        """Return the heads, and the layer after the last, which predicts a second token."""
        return (*super().beside(hub, head), f"model.layers.{hub['num_hidden_layers']}.")

    def mixer_config(self, model: Model) -> HubConfig:
        return self.attention_config(model, model["mixer"])

    def attention_config(self, model: Model, mixer: Hub) -> HubConfig:
        width, heads = model["d_model"], model["num_heads"]
        turned = mixer["head_width"] or width // heads
        return {
            "num_key_value_heads": heads,
            "kv_lora_rank": mixer["latent_width"] or max(1, width // 4),
            "q_lora_rank": mixer["query_latent_width"],
            "qk_rope_head_dim": turned,
            "qk_nope_head_dim": mixer["content_width"] or turned,
            "v_head_dim": mixer["value_width"] or turned,
            "attention_bias": False,
        }

    def feedforward_config(self, model: Model) -> HubConfig:
        """Return the fields of the feed-forwards; a model without experts says that all its layers are dense."""
        node, early, layers = model["feedforward"], model.get("num_early_layers") or 0, model["num_layers"]
        activation = {"hidden_act": their_activation(node["activation"])}
        if described(model, "feedforward") == "DenseFeedForward":
            return {**activation, "first_k_dense_replace": layers, "intermediate_size": feedforward_width(model)}
        dense = {"intermediate_size": feedforward_width(model, "early_feedforward")} if early else {}
        return {
            **activation,
            **dense,
            "first_k_dense_replace": early,
            "moe_intermediate_size": feedforward_width(model),
            self.experts_field: node["num_experts"],
            "num_experts_per_tok": node["experts_per_token"],
            "n_shared_experts": node["num_shared"],
            "n_group": node["num_groups"],
            "topk_group": node["groups_per_token"],
            "norm_topk_prob": node["renormalise"],
            "routed_scaling_factor": node["scale"],
        }

    def position_config(self, model: Model) -> HubConfig:
        """Return the fields of the rotation, with what multiplies the scores beside the root of their width."""
        rope, fields, scale = rope_parameters(model), self.mixer_config(model), model["mixer"]["scale"]
        root = (fields["qk_rope_head_dim"] + fields["qk_nope_head_dim"]) ** 0.5
        if scale is not None and (weight := weight_of_magnitude(model["position"], scale * root)) is not None:
            rope["mscale_all_dim"] = weight
        return {**rotary_fields(rope), "rope_interleave": model["position"]["pairing"] == "interleaved"}

    def words(self, model: Model) -> Describable:
        words = {**super().words(model), "feedforward": ("SharedExperts", "DenseFeedForward")}
        if model.get("num_early_layers"):
            alike = {name: (described(model, f"feedforward.{name}"),) for name in ("activation", "gated", "bias")}
            words |= {"num_early_layers": (model["num_early_layers"],)}
            words |= {"feedforward": ("SharedExperts",), "early_feedforward": ("DenseFeedForward",)}
            words |= {f"early_feedforward.{name}": value for name, value in alike.items()}
        return words

    def mixer_words(self, model: Model, path: str) -> Describable:
        del model, path
        return {"pattern": (None,), "mixer": ("LatentAttention",), "mixer.eps": (LATENT_EPS,)}
