"""Mamba-2 (Dao and Gu 2024, https://arxiv.org/abs/2405.21060): the same blocks, with one decay per head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from headtohead.pretrained.family import Accepted, Architectures, Hub, InexpressibleError
from headtohead.pretrained.mamba import StateSpaces

UNBOUNDED = float("inf")


class Mamba2(StateSpaces):
    """Heads choose step sizes, and the output is normed before its last map."""

    model_type = "mamba2"
    architectures: ClassVar[Architectures] = {"Mamba2ForCausalLM": "language_model", "Mamba2Model": None}
    mixer = "mamba2"
    weights = ("in_proj.weight", "conv1d.weight", "dt_bias", "A_log", "D", "norm.weight", "out_proj.weight")
    defaults: ClassVar[Hub] = {
        "num_heads": 128,
        "head_dim": 64,
        "n_groups": 8,
        "state_size": 128,
        "expand": 2,
        "conv_kernel": 4,
        "use_bias": False,
        "use_conv_bias": True,
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": False,
    }
    accepts: ClassVar[Accepted] = {
        "hidden_act": ("silu", "swish"),
        "time_step_limit": ([0.0, UNBOUNDED], (0.0, UNBOUNDED), [0.0, {"__float__": "Infinity"}]),
    }
    parts: ClassVar[Mapping[str, str]] = {**StateSpaces.parts, "mixer": "Mamba2"}

    def mixer_overrides(self, hub: Hub) -> list[str]:
        return [
            f"model.num_heads={hub['num_heads']}",
            f"model.mixer.head_width={hub['head_dim']}",
            f"model.mixer.num_groups={hub['n_groups']}",
            f"model.mixer.eps={hub['layer_norm_epsilon']}",
        ]

    def hub_config(self, model: Mapping[str, Any]) -> dict[str, Any]:
        config, mixer = super().hub_config(model), model["mixer"]
        if mixer["eps"] != model["norm"]["eps"]:
            raise InexpressibleError(
                f"model.mixer.eps={mixer['eps']} and model.norm.eps={model['norm']['eps']} differ, and mamba2 has one "
                "for both: keep our own form, or train with the same"
            )
        width = int(mixer["expand"] * model["d_model"])
        of_head = mixer["head_width"] or width // model["num_heads"]
        return {**config, "num_heads": width // of_head, "head_dim": of_head, "n_groups": mixer["num_groups"]}
