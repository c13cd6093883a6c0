"""Families that differ from Llama's in more than names: Mistral (Jiang et al. 2023, https://arxiv.org/abs/2310.06825),
Mixtral (https://arxiv.org/abs/2401.04088), OLMo 2 (Ai2 2024, https://arxiv.org/abs/2501.00656) with norms behind its
sublayers, and DiffLlama with differential attention (Ye et al. 2024, https://arxiv.org/abs/2410.05258)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

from headtohead.pretrained.decoder_family import NUMBERED, Names
from headtohead.pretrained.layer_kinds import mixer_paths, node_at
from headtohead.pretrained.llama import LlamaFamily
from headtohead.pretrained.model_description import Describable, Model, described
from headtohead.pretrained.model_family import Accepted, Architectures, Hub, HubConfig, InexpressibleError
from headtohead.pretrained.weight_mapping import Renamed, StackedVectors, WeightMapping


class MistralFamily(LlamaFamily):
    """Llama without biases, whose tokens attend within a window where there is one."""

    model_type = "mistral"
    architectures: ClassVar[Architectures] = {
        "MistralForCausalLM": "language_model",
        "MistralModel": None,
        "MistralForSequenceClassification": None,
        "MistralForTokenClassification": None,
        "MistralForQuestionAnswering": None,
    }
    defaults: ClassVar[Hub] = {**LlamaFamily.defaults, "sliding_window": 4096}
    bias_fields: ClassVar[tuple[str, ...]] = ()
    mixers = ("SoftmaxAttention", "SlidingWindow")

    def mixer_overrides(self, hub: Hub) -> list[str]:
        window = hub["sliding_window"]
        if window is None:
            return super().mixer_overrides(hub)
        return ["model/mixer=sliding_window", f"model.mixer.window={window}", *self.mixer_fields(hub)]

    def mixer_config(self, model: Model) -> HubConfig:
        return {**super().mixer_config(model), "sliding_window": model["mixer"].get("window")}


class MixtralFamily(MistralFamily):
    """Mistral with experts, of which every token meets a few."""

    model_type = "mixtral"
    architectures: ClassVar[Architectures] = {
        "MixtralForCausalLM": "language_model",
        "MixtralModel": None,
        "MixtralForSequenceClassification": None,
        "MixtralForTokenClassification": None,
        "MixtralForQuestionAnswering": None,
    }
    defaults: ClassVar[Hub] = {
        **LlamaFamily.defaults,
        "rms_norm_eps": 1e-5,
        "sliding_window": None,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
        "router_aux_loss_coef": 0.001,
    }
    default_base = 1e6
    feedforward = ("moe", "MixtureOfExperts")
    feedforward_place = "block_sparse_moe"
    expert_names: ClassVar[Names] = NUMBERED

    def feedforward_overrides(self, hub: Hub) -> list[str]:
        return [
            *super().feedforward_overrides(hub),
            "model.feedforward.gated=true",
            "model.feedforward.renormalise=true",
            *(f"model.feedforward.{name}={value}" for name, value in routing_fields(hub, self.experts_field).items()),
        ]

    def feedforward_pieces(self, hub: Hub, layer: int, ours: str, theirs: str) -> Iterator[WeightMapping]:
        del layer
        yield Renamed(f"{ours}.router.weight", f"{theirs}.gate.weight")
        yield from self.experts(hub, f"{ours}.experts", f"{theirs}.experts")

    def feedforward_config(self, model: Model) -> HubConfig:
        return {**super().feedforward_config(model), **routing_config(model["feedforward"], self.experts_field)}


def routing_fields(hub: Hub, experts_field: str) -> dict[str, object]:
    """Return our fields of experts that a loss balances."""
    return {
        "num_experts": hub[experts_field],
        "experts_per_token": hub["num_experts_per_tok"],
        "balance_weight": hub["router_aux_loss_coef"],
        "z_weight": 0.0,
    }


def routing_config(node: Hub, experts_field: str) -> HubConfig:
    """Return their fields of experts that a loss balances."""
    return {
        experts_field: node["num_experts"],
        "num_experts_per_tok": node["experts_per_token"],
        "router_aux_loss_coef": node["balance_weight"],
    }


class Olmo2Family(LlamaFamily):
    """Each norm stands behind its sublayer and before the sum; queries and keys are normed over all heads together."""

    model_type = "olmo2"
    architectures: ClassVar[Architectures] = {
        "Olmo2ForCausalLM": "language_model",
        "Olmo2Model": None,
        "Olmo2ForSequenceClassification": None,
    }
    accepts: ClassVar[Accepted] = {"is_causal": (True,)}
    defaults: ClassVar[Hub] = {**LlamaFamily.defaults, "rms_norm_eps": 1e-5}
    bias_fields: ClassVar[tuple[str, ...]] = ("attention_bias",)
    residual = ("reordered", "Reordered")
    layer_norms = ("post_attention_layernorm", "post_feedforward_layernorm")
    score_norms: ClassVar[Names] = {"query": "q_norm", "key": "k_norm"}

    def attention_overrides(self, hub: Hub) -> dict[str, object]:
        return {**super().attention_overrides(hub), "qk_norm_over": "all"}


class DiffLlamaFamily(LlamaFamily):
    """Each layer is a mixer of its own here, since the share that it subtracts at the start grows with its depth."""

    model_type = "diffllama"
    architectures: ClassVar[Architectures] = {
        "DiffLlamaForCausalLM": "language_model",
        "DiffLlamaModel": None,
        "DiffLlamaForSequenceClassification": None,
        "DiffLlamaForTokenClassification": None,
        "DiffLlamaForQuestionAnswering": None,
    }
    accepts: ClassVar[Accepted] = {"is_causal": (True,), "attention_dropout": (0.0, 0)}
    defaults: ClassVar[Hub] = {**LlamaFamily.defaults, "rms_norm_eps": 1e-5}
    bias_fields: ClassVar[tuple[str, ...]] = ("attention_bias",)

    def mixer_overrides(self, hub: Hub) -> list[str]:
        fields = {**self.attention_overrides(hub), "norm_eps": hub["rms_norm_eps"]}
        names = [f"layer_{layer}" for layer in range(hub["num_hidden_layers"])]
        layers = [
            override
            for layer, name in enumerate(names)
            for override in (
                f"+model/mixer@model.mixers.{name}=differential_attention",
                *(f"model.mixers.{name}.{field}={value}" for field, value in fields.items()),
                f"model.mixers.{name}.subtracted={subtracted(layer)}",
            )
        ]
        return [*layers, f"model.pattern=[{','.join(names)}]"]

    def attention(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        yield from super().attention(hub, ours, theirs)
        vectors = (f"{theirs}.lambda_{name}" for name in ("q1", "k1", "q2", "k2"))
        yield StackedVectors(f"{ours}.lambdas", tuple(vectors), (2, 2))

    def mixer_words(self, model: Model, path: str) -> Describable:
        first = node_at(model, mixer_paths(model)[0])
        alike = {field: value for field, value in first.items() if field not in ("_target_", "subtracted")}
        return {path: ("DifferentialAttention",), **{f"{path}.{field}": (value,) for field, value in alike.items()}}

    def mixer_config(self, model: Model) -> HubConfig:
        paths = mixer_paths(model)
        for layer, path in enumerate(paths):
            share = described(model, f"{path}.subtracted")
            if not math.isclose(share, subtracted(layer), abs_tol=1e-9):
                raise InexpressibleError(
                    f"model.{path}.subtracted={share} in layer {layer}, and {self.model_type} has "
                    f"{subtracted(layer):.4f} there: keep our own form, or start from a checkpoint of this family"
                )
        return self.attention_config(model, node_at(model, paths[0]))


def subtracted(layer: int) -> float:
    """Return the share of the second map at the start, which grows with depth from 0.2 to 0.8."""
    return 0.8 - 0.6 * math.exp(-0.3 * layer)
