"""Command R7B and Command A (Cohere 2025, https://arxiv.org/abs/2504.00698): three layers of windows with rotary
positions, then one that sees all and has none; both sublayers read the stream side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.config_fields import check_positive
from headtohead.pretrained.decoder_family import WindowedFamily
from headtohead.pretrained.layer_kinds import EVERYTHING
from headtohead.pretrained.model_description import Describable, Model, described
from headtohead.pretrained.model_family import Architectures, Hub, HubConfig


class Cohere2Family(WindowedFamily):
    """One norm of a layer, without a shift, before both sublayers; neighbouring channels rotate as pairs; logits have a
    factor."""

    model_type = "cohere2"
    architectures: ClassVar[Architectures] = {"Cohere2ForCausalLM": "language_model", "Cohere2Model": None}
    defaults: ClassVar[Hub] = {
        "num_key_value_heads": None,
        "head_dim": None,
        "attention_bias": False,
        "layer_norm_eps": 1e-5,
        "hidden_act": "silu",
        "sliding_window": 4096,
        "sliding_window_pattern": 4,
        "layer_types": None,
        "logit_scale": 0.0625,
        "tie_word_embeddings": True,
    }
    bias_fields: ClassVar[tuple[str, ...]] = ("attention_bias",)
    every = "sliding_window_pattern"
    eps_field = "layer_norm_eps"
    norm = ("layer_norm_unbiased", "LayerNorm")
    gain_name = "weight"
    layer_norms = ("input_layernorm",)
    residual = ("parallel", "Parallel")
    pairing = "interleaved"

    def complete(self, config: Hub) -> Hub:
        hub = super().complete(config)
        check_positive(hub, "logit_scale")
        return hub

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        return [*super().overrides(hub, head), f"model.logit_scale={float(hub['logit_scale'])}"]

    def mixer_fields(self, hub: Hub, kind: str) -> Mapping[str, object]:
        fields = super().mixer_fields(hub, kind)
        return {**fields, "rotated": "false"} if kind == EVERYTHING else fields

    def hub_config(self, model: Model) -> HubConfig:
        config, scale = super().hub_config(model), model.get("logit_scale")
        return {**config, "logit_scale": 1.0 if scale is None else scale}

    def words(self, model: Model) -> Describable:
        return {**super().words(model), "residual.shared_norm": (True,), "position.pairing": (self.pairing,)}

    def mixer_words(self, model: Model, path: str) -> Describable:
        words = super().mixer_words(model, path)
        sees_all = described(model, path) == self.kinds[EVERYTHING].made_by
        return {**words, **({f"{path}.rotated": (False,)} if sees_all else {})}
