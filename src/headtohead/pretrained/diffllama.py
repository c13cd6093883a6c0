"""DiffLlama: Llama with differential attention (Ye et al. 2024, https://arxiv.org/abs/2410.05258)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.layer_patterns import mixer_node, mixer_paths
from headtohead.pretrained.llama import LlamaFamily
from headtohead.pretrained.model_description import Model, check_describable, described
from headtohead.pretrained.model_family import Accepted, Architectures, Hub, HubConfig, InexpressibleError, flag
from headtohead.pretrained.weight_mapping import StackedVectors, WeightMapping

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
