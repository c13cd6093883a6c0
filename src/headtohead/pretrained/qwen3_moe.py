"""Qwen3's models with experts (Qwen team 2025, https://arxiv.org/abs/2505.09388), and what Qwen3-Next's share with
them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from headtohead.pretrained.layer_kinds import check_period
from headtohead.pretrained.llama import Qwen3Family
from headtohead.pretrained.llama_descendants import routing_config, routing_fields
from headtohead.pretrained.model_family import (
    Architectures,
    Hub,
    HubConfig,
    InexpressibleError,
    flag,
)
from headtohead.pretrained.sparse_layers import SparseLayers
from headtohead.pretrained.weight_mapping import Renamed, WeightMapping


class QwenExperts(SparseLayers):
    """Experts in all layers, or in those of a period that are not listed as dense."""

    experts_field = "num_experts"

    def complete(self, config: Hub) -> Hub:
        hub = super().complete(config)
        experts = hub["num_experts"]
        if type(experts) is not int or experts < 0:
            raise InexpressibleError(
                f"its config.json has num_experts={experts}, which must be a whole number, 0 for none: correct it"
            )
        check_period(hub, "decoder_sparse_step")
        return hub

    def has_experts(self, hub: Hub, layer: int) -> bool:
        among = (layer + 1) % hub["decoder_sparse_step"] == 0 and layer not in (hub["mlp_only_layers"] or ())
        return hub["num_experts"] > 0 and among

    def expert_width(self, hub: Hub) -> int:
        width: int = hub["moe_intermediate_size"]
        return width

    def expert_fields(self, hub: Hub) -> Mapping[str, object]:
        fields = {"gated": "true", "renormalise": flag(hub["norm_topk_prob"])}
        return {**fields, **routing_fields(hub, self.experts_field)}

    def expert_pieces(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        yield from self.experts(hub, f"{ours}.experts", f"{theirs}.experts")
        yield Renamed(f"{ours}.router.weight", f"{theirs}.gate.weight")

    def config_of_layers(
        self, are_sparse: Sequence[bool], experts: HubConfig, dense_width: int | None, expert_width: int | None
    ) -> HubConfig:
        width = {} if dense_width is None else {"intermediate_size": dense_width}
        if not experts:
            return {**width, "num_experts": 0}
        without = [layer for layer, is_sparse in enumerate(are_sparse) if not is_sparse]
        return {
            **width,
            **({"mlp_only_layers": without} if without else {}),
            "moe_intermediate_size": expert_width,
            "norm_topk_prob": experts["renormalise"],
            **routing_config(experts, self.experts_field),
        }


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
