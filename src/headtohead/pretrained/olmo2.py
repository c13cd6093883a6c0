"""OLMo 2 (Ai2 2024, https://arxiv.org/abs/2501.00656): Llama with norms behind its sublayers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from headtohead.pretrained.llama import LlamaFamily
from headtohead.pretrained.model_description import Model
from headtohead.pretrained.model_family import Accepted, Architectures, Hub, HubConfig
from headtohead.pretrained.weight_mapping import Renamed, WeightMapping


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
