"""Families that differ from Llama's in more than names: Mistral (Jiang et al. 2023, https://arxiv.org/abs/2310.06825),
Mixtral (https://arxiv.org/abs/2401.04088), OLMo 2 (Ai2 2024, https://arxiv.org/abs/2501.00656) with norms behind its
sublayers, and DiffLlama with differential attention (Ye et al. 2024, https://arxiv.org/abs/2410.05258)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.config_fields import mixer_node, mixer_paths
from headtohead.pretrained.llama import LlamaFamily
from headtohead.pretrained.model_description import Model, check_describable, described
from headtohead.pretrained.model_family import Accepted, Architectures, Hub, HubConfig, InexpressibleError, choice, flag
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

    def complete(self, config: Hub) -> Hub:
        """Complete the configuration: there is no field for biases, since there are none."""
        return {**super().complete(config), "attention_bias": False, "mlp_bias": False}

    def mixer_overrides(self, hub: Hub) -> list[str]:
        window = hub["sliding_window"]
        if window is None:
            return super().mixer_overrides(hub)
        return ["model/mixer=sliding_window", f"model.mixer.window={window}", "model.mixer.bias=false"]

    def check_parts(self, model: Model) -> None:
        windowed = choice(model["mixer"]) == "SlidingWindow"
        self.check_classes(model, {**self.parts, "mixer": "SlidingWindow"} if windowed else self.parts)

    def hub_config(self, model: Model) -> HubConfig:
        config = super().hub_config(model)
        del config["attention_bias"], config["mlp_bias"]
        return {**config, "sliding_window": model["mixer"].get("window")}


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
    feedforward_choice = "moe"
    parts: ClassVar[Mapping[str, str]] = {**LlamaFamily.parts, "feedforward": "MixtureOfExperts"}

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        return [
            *super().overrides(hub, head),
            "model.feedforward.gated=true",
            "model.feedforward.renormalise=true",
            f"model.feedforward.num_experts={hub['num_local_experts']}",
            f"model.feedforward.experts_per_token={hub['num_experts_per_tok']}",
            f"model.feedforward.balance_weight={hub['router_aux_loss_coef']}",
            "model.feedforward.z_weight=0.0",
        ]

    def feedforward(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        yield Renamed(f"{ours}.feedforward.router.weight", f"{theirs}.block_sparse_moe.gate.weight")
        for expert in range(hub["num_local_experts"]):
            for our_name, their_name in (("gate", "w1"), ("up", "w3"), ("down", "w2")):
                yield Renamed(
                    f"{ours}.feedforward.experts.{expert}.{our_name}.weight",
                    f"{theirs}.block_sparse_moe.experts.{expert}.{their_name}.weight",
                )

    def hub_config(self, model: Model) -> HubConfig:
        config, node = super().hub_config(model), model["feedforward"]
        return {
            **config,
            "num_local_experts": node.get("num_experts"),
            "num_experts_per_tok": node.get("experts_per_token"),
            "router_aux_loss_coef": node.get("balance_weight"),
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
    residual = "reordered"
    parts: ClassVar[Mapping[str, str]] = {**LlamaFamily.parts, "residual": "Reordered"}

    def complete(self, config: Hub) -> Hub:
        """Complete the configuration: the feed-forward has no biases."""
        return {**super().complete(config), "mlp_bias": False}

    def mixer_overrides(self, hub: Hub) -> list[str]:
        normed = ["qk_norm=true", "qk_norm_over=all", f"qk_norm_eps={hub['rms_norm_eps']}"]
        return [*super().mixer_overrides(hub), *(f"model.mixer.{field}" for field in normed)]

    def block(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        yield Renamed(f"{ours}.wiring.norms.0.scale.weight", f"{theirs}.post_attention_layernorm.weight")
        yield Renamed(f"{ours}.wiring.norms.1.scale.weight", f"{theirs}.post_feedforward_layernorm.weight")
        yield from self.attention(hub, ours, theirs)
        for name in ("query", "key"):
            yield Renamed(f"{ours}.mixer.{name}_norm.weight", f"{theirs}.self_attn.{name[0]}_norm.weight")
        yield from self.feedforward(hub, ours, theirs)

    def hub_config(self, model: Model) -> HubConfig:
        config = super().hub_config(model)
        del config["mlp_bias"]
        return config


_MIXER = "model.mixer."


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
    parts: ClassVar[Mapping[str, str]] = {**LlamaFamily.parts, "mixer": "DifferentialAttention"}

    def complete(self, config: Hub) -> Hub:
        """Complete the configuration: the feed-forward has no biases."""
        return {**super().complete(config), "mlp_bias": False}

    def mixer_overrides(self, hub: Hub) -> list[str]:
        bias, eps = flag(hub["attention_bias"]), hub["rms_norm_eps"]
        return [f"{_MIXER}bias={bias}", f"{_MIXER}norm_eps={eps}"]

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        shared = super().overrides(hub, head)
        fields = [override.removeprefix(_MIXER) for override in shared if override.startswith(_MIXER)]
        names = [f"layer_{layer}" for layer in range(hub["num_hidden_layers"])]
        layers = [
            override
            for layer, name in enumerate(names)
            for override in (
                f"+model/mixer@model.mixers.{name}=differential_attention",
                *(f"model.mixers.{name}.{field}" for field in fields),
                f"model.mixers.{name}.subtracted={subtracted(layer)}",
            )
        ]
        others = [override for override in shared if not override.startswith(_MIXER)]
        return [*others, *layers, f"model.pattern=[{','.join(names)}]"]

    def attention(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        yield from super().attention(hub, ours, theirs)
        vectors = (f"{theirs}.self_attn.lambda_{name}" for name in ("q1", "k1", "q2", "k2"))
        yield StackedVectors(f"{ours}.mixer.lambdas", tuple(vectors), (2, 2))

    def hub_config(self, model: Model) -> HubConfig:
        paths = mixer_paths(model)
        first = mixer_node(model, paths[0])
        for layer, path in enumerate(paths):
            shared = {field: (value,) for field, value in first.items() if field not in ("_target_", "subtracted")}
            words = {path: ("DifferentialAttention",), **{f"{path}.{field}": value for field, value in shared.items()}}
            check_describable(model, self.model_type, words)
            share = described(model, f"{path}.subtracted")
            if not math.isclose(share, subtracted(layer), abs_tol=1e-9):
                raise InexpressibleError(
                    f"model.{path}.subtracted={share} in layer {layer}, and {self.model_type} has "
                    f"{subtracted(layer):.4f} there: keep our own form, or start from a checkpoint of this family"
                )
        config = super().hub_config({**model, "mixer": first})
        del config["mlp_bias"]
        return config


def subtracted(layer: int) -> float:
    """Return the share of the second map at the start, which grows with depth from 0.2 to 0.8."""
    return 0.8 - 0.6 * math.exp(-0.3 * layer)
