"""Gemma 2 (2024, https://arxiv.org/abs/2408.00118): a layer of windows, then one that sees all, with capped scores and
logits.

Gemma 3 (2025, https://arxiv.org/abs/2503.19786), its text models: five layers of windows, then one that sees all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.config_fields import base_of_layers, check_positive
from headtohead.pretrained.decoder_family import Names, WindowedFamily
from headtohead.pretrained.layer_kinds import EVERYTHING, WINDOW
from headtohead.pretrained.model_description import Describable, Model
from headtohead.pretrained.model_family import Accepted, Architectures, Hub, HubConfig, InexpressibleError
from headtohead.pretrained.weight_mapping import UnitOffsetGain


class Gemma2Family(WindowedFamily):
    """Norms on both sides of each sublayer, whose files hold a gain less one; embeddings times sqrt(d_model); rotary
    positions; soft caps."""

    model_type = "gemma2"
    architectures: ClassVar[Architectures] = {
        "Gemma2ForCausalLM": "language_model",
        "Gemma2Model": None,
        "Gemma2ForSequenceClassification": None,
        "Gemma2ForTokenClassification": None,
    }
    defaults: ClassVar[Hub] = {
        "hidden_activation": "gelu_pytorch_tanh",
        "num_key_value_heads": 4,
        "head_dim": 256,
        "attention_bias": False,
        "rms_norm_eps": 1e-6,
        "query_pre_attn_scalar": 256,
        "sliding_window": 4096,
        "layer_types": None,
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
        "tie_word_embeddings": True,
    }
    accepts: ClassVar[Accepted] = {"is_causal": (True,), "use_bidirectional_attention": (False, None)}
    bias_fields: ClassVar[tuple[str, ...]] = ("attention_bias",)
    activation_field = "hidden_activation"
    residual = ("sandwich", "Sandwich")
    feedforward = ("geglu", "DenseFeedForward")
    gain = UnitOffsetGain
    layer_norms = (
        "input_layernorm",
        "pre_feedforward_layernorm",
        "post_attention_layernorm",
        "post_feedforward_layernorm",
    )
    scaled_embedding = True

    def complete(self, config: Hub) -> Hub:
        hub = super().complete(config)
        check_positive(hub, "query_pre_attn_scalar")
        return hub

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        return [*super().overrides(hub, head), f"model.logit_cap={_or_null(hub['final_logit_softcapping'])}"]

    def attention_overrides(self, hub: Hub) -> dict[str, object]:
        return {
            **super().attention_overrides(hub),
            "scale": float(hub["query_pre_attn_scalar"]) ** -0.5,
            "score_cap": _or_null(hub["attn_logit_softcapping"]),
        }

    def hub_config(self, model: Model) -> HubConfig:
        return {**super().hub_config(model), "final_logit_softcapping": model["logit_cap"]}

    def attention_config(self, model: Model, mixer: Hub) -> HubConfig:
        config = super().attention_config(model, mixer)
        scalar = self._scalar(mixer["scale"], config["head_dim"])
        return {**config, "query_pre_attn_scalar": scalar, "attn_logit_softcapping": mixer["score_cap"]}

    def _scalar(self, scale: float | None, width: int) -> int:
        """Return the whole number whose inverse root scales the scores; refuse a scale without one."""
        if scale is None:
            return width
        scalar = round(scale**-2)
        if abs(scalar * scale**2 - 1) > 1e-9:
            raise InexpressibleError(
                f"the scores are scaled by {scale}, and {self.model_type} divides them by the root of a whole number: "
                "keep our own form"
            )
        return scalar


def _or_null(value: float | None) -> str:
    return "null" if value is None else str(value)


class Gemma3Family(Gemma2Family):
    """Gemma 2 with norms on queries and keys instead of capped scores, and rotary positions of two bases, without
    scaling."""

    model_type = "gemma3_text"
    architectures: ClassVar[Architectures] = {
        "Gemma3ForCausalLM": "language_model",
        "Gemma3TextModel": None,
        "Gemma3TextForSequenceClassification": None,
    }
    defaults: ClassVar[Hub] = {
        **Gemma2Family.defaults,
        "sliding_window_pattern": 6,
        "rope_parameters": None,
        "rope_theta": 1e6,
        "rope_local_base_freq": 1e4,
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
    }
    accepts: ClassVar[Accepted] = {
        **Gemma2Family.accepts,
        "rope_scaling": (None,),
        "attn_logit_softcapping": (None,),
    }
    every = "sliding_window_pattern"
    score_norms: ClassVar[Names] = {"query": "q_norm", "key": "k_norm"}

    def position_overrides(self, hub: Hub) -> list[str]:
        has_windows = WINDOW in self.layer_kinds(hub)
        local_base = base_of_layers(hub, WINDOW, hub["rope_local_base_freq"]) if has_windows else "null"
        return [
            "model/position=rotary_two_bases",
            f"model.position.base={base_of_layers(hub, EVERYTHING, hub['rope_theta'])}",
            f"model.position.local_base={local_base}",
            f"model.position.head_width={self.head_width(hub)}",
        ]

    def differences(self, hub: Hub, head: HeadName) -> Iterator[str]:
        """Yield nothing: scaled positions are refused."""
        del hub, head
        return iter(())

    def hub_config(self, model: Model) -> HubConfig:
        config = super().hub_config(model)
        del config["attn_logit_softcapping"]
        return config

    def position_config(self, model: Model) -> HubConfig:
        position = model["position"]
        base, local_base = position["base"], position["local_base"]
        local_base = base if local_base is None else local_base
        rope = {EVERYTHING: {"rope_theta": base}, WINDOW: {"rope_theta": local_base}}
        return {
            "rope_parameters": {kind: {"rope_type": "default", **fields} for kind, fields in rope.items()},
            "rope_theta": base,
            "rope_local_base_freq": local_base,
        }

    def words(self, model: Model) -> Describable:
        words: dict[str, Sequence[object]] = {**super().words(model), "position": ("Rotary",)}
        return words
