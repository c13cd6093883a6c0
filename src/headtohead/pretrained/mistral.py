"""Mistral (Jiang et al. 2023, https://arxiv.org/abs/2310.06825) and Mixtral (https://arxiv.org/abs/2401.04088)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.llama import LlamaFamily
from headtohead.pretrained.model_description import Model
from headtohead.pretrained.model_family import Architectures, Hub, HubConfig, choice
from headtohead.pretrained.weight_mapping import Renamed, WeightMapping


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
