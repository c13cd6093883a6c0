"""Qwen3's models with experts (Qwen team 2025, https://arxiv.org/abs/2505.09388), and what Qwen3-Next's share with
them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from headtohead.pretrained.config_fields import check_period
from headtohead.pretrained.decoder_family import DecoderFamily, gated_overrides, gated_pieces
from headtohead.pretrained.llama import Qwen3Family
from headtohead.pretrained.llama_descendants import routing_config, routing_overrides
from headtohead.pretrained.model_description import Describable, Model
from headtohead.pretrained.model_family import (
    Architectures,
    Hub,
    HubConfig,
    InexpressibleError,
    choice,
    feedforward_width,
    flag,
    their_activation,
)
from headtohead.pretrained.weight_mapping import Renamed, WeightMapping


class QwenExperts(DecoderFamily):
    """All layers have experts, or none has."""

    experts_field = "num_experts"

    def complete(self, config: Hub) -> Hub:
        hub = super().complete(config)
        experts = hub["num_experts"]
        if type(experts) is not int or experts < 0:
            raise InexpressibleError(
                f"its config.json has num_experts={experts}, which must be a whole number, 0 for none: correct it"
            )
        check_period(hub, "decoder_sparse_step")
        if len({has_experts(hub, layer) for layer in range(hub["num_hidden_layers"])}) > 1:
            raise InexpressibleError(
                f"its config.json has mlp_only_layers={hub['mlp_only_layers']} and decoder_sparse_step="
                f"{hub['decoder_sparse_step']}, so that some layers have experts and others none, and here all layers "
                "have one kind of feed-forward: choose another checkpoint"
            )
        return hub

    def feedforward_overrides(self, hub: Hub) -> list[str]:
        """Return the overrides of the feed-forward: experts, or a gated layer alone."""
        if not has_experts(hub, 0):
            return gated_overrides(hub, "swiglu", hub["intermediate_size"], self.activation(hub))
        return [
            *gated_overrides(hub, self.feedforward[0], hub["moe_intermediate_size"], self.activation(hub)),
            "model.feedforward.gated=true",
            f"model.feedforward.renormalise={flag(hub['norm_topk_prob'])}",
            *routing_overrides(hub, self.experts_field),
        ]

    def feedforward_pieces(self, hub: Hub, layer: int, ours: str, theirs: str) -> Iterator[WeightMapping]:
        if not has_experts(hub, layer):
            yield from gated_pieces(ours, theirs)
            return
        yield from self.experts(hub, f"{ours}.experts", f"{theirs}.experts")
        yield Renamed(f"{ours}.router.weight", f"{theirs}.gate.weight")

    def feedforward_config(self, model: Model) -> HubConfig:
        node = model["feedforward"]
        activation = {self.activation_field: their_activation(node["activation"])}
        if choice(node) == "DenseFeedForward":
            return {**activation, "num_experts": 0, "intermediate_size": feedforward_width(model)}
        return {
            **activation,
            "moe_intermediate_size": feedforward_width(model),
            "norm_topk_prob": node["renormalise"],
            **routing_config(model, self.experts_field),
        }

    def words(self, model: Model) -> Describable:
        return {**super().words(model), "feedforward": (self.feedforward[1], "DenseFeedForward")}


def has_experts(hub: Hub, layer: int) -> bool:
    """Return whether this layer has experts."""
    among = (layer + 1) % hub["decoder_sparse_step"] == 0 and layer not in (hub["mlp_only_layers"] or ())
    return hub["num_experts"] > 0 and among


class Qwen3MoeFamily(QwenExperts, Qwen3Family):
    """Qwen3 with experts, whose weights sum to 1 where its file says so."""

    model_type = "qwen3_moe"
    architectures: ClassVar[Architectures] = {
        "Qwen3MoeForCausalLM": "language_model",
        "Qwen3MoeModel": None,
        "Qwen3MoeForSequenceClassification": None,
        "Qwen3MoeForTokenClassification": None,
        "Qwen3MoeForQuestionAnswering": None,
    }
    synonyms: ClassVar[Mapping[str, str]] = {"num_local_experts": "num_experts"}
    defaults: ClassVar[Hub] = {
        **Qwen3Family.defaults,
        "num_key_value_heads": 4,
        "head_dim": None,
        "decoder_sparse_step": 1,
        "moe_intermediate_size": 768,
        "num_experts_per_tok": 8,
        "num_experts": 128,
        "norm_topk_prob": False,
        "router_aux_loss_coef": 0.001,
        "mlp_only_layers": None,
    }
    feedforward = ("moe", "MixtureOfExperts")
