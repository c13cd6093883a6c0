"""gpt-oss (OpenAI 2025, https://arxiv.org/abs/2508.10925): a layer of windows, then one that sees all, with sinks;
experts with clamped gates in every layer. Weights that are coded as MXFP4 are refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from headtohead.pretrained.config_fields import check_positive
from headtohead.pretrained.decoder_family import WindowedFamily
from headtohead.pretrained.layer_kinds import EVERYTHING, WINDOW, LayerKind
from headtohead.pretrained.llama_descendants import routing_config, routing_fields
from headtohead.pretrained.model_description import Describable, Model
from headtohead.pretrained.model_family import (
    Accepted,
    Architectures,
    Hub,
    HubConfig,
    feedforward_width,
    multiple,
)
from headtohead.pretrained.weight_mapping import Renamed, StackedExperts, WeightMapping, renamed

_SCALED: Hub = {
    "rope_type": "yarn",
    "factor": 32.0,
    "beta_fast": 32.0,
    "beta_slow": 1.0,
    "truncate": False,
    "original_max_position_embeddings": 4096,
}
"""The rotary positions of its class where a file has none."""


class GptOssFamily(WindowedFamily):
    """Sinks in all layers; biases of attention, of the router and of experts, whose matrices files hold stacked."""

    model_type = "gpt_oss"
    architectures: ClassVar[Architectures] = {
        "GptOssForCausalLM": "language_model",
        "GptOssModel": None,
        "GptOssForSequenceClassification": None,
        "GptOssForTokenClassification": None,
    }
    synonyms: ClassVar[Mapping[str, str]] = {"num_experts": "num_local_experts"}
    defaults: ClassVar[Hub] = {
        "num_key_value_heads": 8,
        "head_dim": 64,
        "attention_bias": True,
        "rms_norm_eps": 1e-5,
        "sliding_window": 128,
        "layer_types": None,
        "rope_parameters": None,
        "num_local_experts": 128,
        "num_experts_per_tok": 4,
        "router_aux_loss_coef": 0.001,
        "swiglu_alpha": 1.702,
        "swiglu_limit": 7.0,
        "tie_word_embeddings": False,
    }
    accepts: ClassVar[Accepted] = {"is_causal": (True,), "hidden_act": ("silu", "swish")}
    kinds: ClassVar[Mapping[str, LayerKind]] = {
        EVERYTHING: LayerKind("sink_attention", "SinkAttention"),
        WINDOW: LayerKind("sink_window", "SinkWindow"),
    }
    default_base = 150000.0
    bias_fields: ClassVar[tuple[str, ...]] = ("attention_bias",)
    feedforward = ("moe_clamped", "ClampedExperts")

    def complete(self, config: Hub) -> Hub:
        hub = {**super().complete(config)}
        check_positive(hub, "swiglu_alpha", "swiglu_limit")
        if hub["rope_parameters"] is None:
            hub["rope_parameters"] = _SCALED
        return hub

    def feedforward_overrides(self, hub: Hub) -> list[str]:
        return [
            f"model/feedforward={self.feedforward[0]}",
            multiple(hub["intermediate_size"], hub["hidden_size"]),
            "model.feedforward.renormalise=true",
            f"model.feedforward.limit={float(hub['swiglu_limit'])}",
            f"model.feedforward.sharpness={float(hub['swiglu_alpha'])}",
            *(f"model.feedforward.{name}={value}" for name, value in routing_fields(hub, self.experts_field).items()),
        ]

    def attention(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        yield from super().attention(hub, ours, theirs)
        yield Renamed(f"{ours}.sink", f"{theirs}.sinks")

    def feedforward_pieces(self, hub: Hub, layer: int, ours: str, theirs: str) -> Iterator[WeightMapping]:
        del layer
        yield from renamed(f"{ours}.router", f"{theirs}.router")
        experts = [f"{ours}.experts.{expert}" for expert in range(hub[self.experts_field])]
        for name, parts in (("gate_up_proj", ("gate", "up")), ("down_proj", ("down",))):
            for kind, suffix in (("weight", ""), ("bias", "_bias")):
                stacked = tuple(f"{expert}.{part}.{kind}" for expert in experts for part in parts)
                yield StackedExperts(stacked, f"{theirs}.experts.{name}{suffix}", len(parts))

    def feedforward_config(self, model: Model) -> HubConfig:
        node = model["feedforward"]
        return {
            "intermediate_size": feedforward_width(model),
            "swiglu_alpha": node["sharpness"],
            "swiglu_limit": node["limit"],
            **routing_config(model["feedforward"], self.experts_field),
            "hidden_act": "silu",
        }

    def words(self, model: Model) -> Describable:
        words = {**super().words(model), "feedforward.bias": (True,), "feedforward.renormalise": (True,)}
        del words["feedforward.gated"]
        return words
