"""Gemma 3 (2025, https://arxiv.org/abs/2503.19786), its text models: five layers of windows, then one that sees all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.gemma2 import EVERYTHING, WINDOW, Gemma2Family, kinds_in_turn
from headtohead.pretrained.layer_patterns import base_of_layers
from headtohead.pretrained.model_description import Describable, Model
from headtohead.pretrained.model_family import Accepted, Architectures, Hub, HubConfig
from headtohead.pretrained.weight_mapping import OneAbove, WeightMapping


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

    def layer_kinds(self, hub: Hub) -> list[str]:
        """Return which layers see a window and which everything: as listed, or every sixth one everything."""
        return kinds_in_turn(hub, every=hub["sliding_window_pattern"])

    def mixer_fields(self, hub: Hub) -> dict[str, object]:
        return {**super().mixer_fields(hub), "qk_norm": "true", "qk_norm_eps": hub["rms_norm_eps"]}

    def position_overrides(self, hub: Hub) -> list[str]:
        has_windows = WINDOW in self.layer_kinds(hub)
        local_base = base_of_layers(hub, WINDOW, hub["rope_local_base_freq"]) if has_windows else "null"
        return [
            "model/position=rotary_two_bases",
            f"model.position.base={base_of_layers(hub, EVERYTHING, hub['rope_theta'])}",
            f"model.position.local_base={local_base}",
        ]

    def differences(self, hub: Hub, head: HeadName) -> Iterator[str]:
        """Yield nothing: scaled positions are refused."""
        del hub, head
        return iter(())

    def attention(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        yield from super().attention(hub, ours, theirs)
        for name in ("query", "key"):
            yield OneAbove(f"{ours}.mixer.{name}_norm.weight", f"{theirs}.self_attn.{name[0]}_norm.weight")

    def hub_config(self, model: Model) -> HubConfig:
        config = super().hub_config(model)
        del config["attn_logit_softcapping"]
        return config

    def rope_parameters(self, model: Model) -> HubConfig:
        position = model["position"]
        local_base = position["base"] if position["local_base"] is None else position["local_base"]
        return {
            EVERYTHING: {"rope_type": "default", "rope_theta": position["base"]},
            WINDOW: {"rope_type": "default", "rope_theta": local_base},
        }

    def words(self, paths: list[str]) -> Describable:
        words = {**super().words(paths), "position": ("Rotary",)}
        for path in dict.fromkeys(paths):
            words |= {f"{path}.qk_norm": (True,), f"{path}.qk_norm_over": ("head",)}
        return words
