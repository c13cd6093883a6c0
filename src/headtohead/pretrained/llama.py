"""Llama (Touvron et al. 2023, https://arxiv.org/abs/2302.13971) and those that differ from it by an option: Qwen2
(https://arxiv.org/abs/2407.10671) and Qwen3 (https://arxiv.org/abs/2505.09388).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from headtohead.pretrained.decoder_family import DecoderFamily, Names
from headtohead.pretrained.model_description import Describable, Model
from headtohead.pretrained.model_family import Accepted, Architectures, Hub, HubConfig


class LlamaFamily(DecoderFamily):
    """Root-mean-square norms before each sublayer, rotary positions, a gated feed-forward, grouped heads."""

    model_type = "llama"
    architectures: ClassVar[Architectures] = {
        "LlamaForCausalLM": "language_model",
        "LlamaModel": None,
        "LlamaForSequenceClassification": None,
        "LlamaForTokenClassification": None,
        "LlamaForQuestionAnswering": None,
    }
    defaults: ClassVar[Hub] = {
        "num_key_value_heads": None,
        "head_dim": None,
        "attention_bias": False,
        "mlp_bias": False,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
    }
    accepts: ClassVar[Accepted] = {"pretraining_tp": (1,), "is_causal": (True,)}
    bias_fields: ClassVar[tuple[str, ...]] = ("attention_bias", "mlp_bias")
    mixers: ClassVar[tuple[str, ...]] = ("SoftmaxAttention",)
    """The classes of mixers that its layers may have."""

    def mixer_overrides(self, hub: Hub) -> list[str]:
        return ["model/mixer=softmax_attention", *self.mixer_fields(hub)]

    def mixer_fields(self, hub: Hub) -> list[str]:
        """Return the overrides of the mixer's fields."""
        return [f"model.mixer.{field}={value}" for field, value in self.attention_overrides(hub).items()]

    def mixer_config(self, model: Model) -> HubConfig:
        return self.attention_config(model, model["mixer"])

    def mixer_words(self, model: Model, path: str) -> Describable:
        del model, path
        return {"pattern": (None,), "mixer": self.mixers}


class Qwen2Family(LlamaFamily):
    """Queries, keys and values with a bias, the output without."""

    model_type = "qwen2"
    architectures: ClassVar[Architectures] = {
        "Qwen2ForCausalLM": "language_model",
        "Qwen2Model": None,
        "Qwen2ForSequenceClassification": None,
        "Qwen2ForTokenClassification": None,
        "Qwen2ForQuestionAnswering": None,
    }
    accepts: ClassVar[Accepted] = {"use_sliding_window": (False,), "is_causal": (True,)}
    bias_fields: ClassVar[tuple[str, ...]] = ()

    def attention_overrides(self, hub: Hub) -> dict[str, object]:
        return {**super().attention_overrides(hub), "bias": "true", "output_bias": "false"}

    def biased(self, hub: Hub) -> Sequence[str]:
        del hub
        return ("query", "key", "value")

    def mixer_config(self, model: Model) -> HubConfig:
        return {**super().mixer_config(model), "use_sliding_window": False}


class Qwen3Family(LlamaFamily):
    """Qwen3 normalises queries and keys head by head, and sets a head's width independently."""

    model_type = "qwen3"
    architectures: ClassVar[Architectures] = {
        "Qwen3ForCausalLM": "language_model",
        "Qwen3Model": None,
        "Qwen3ForSequenceClassification": None,
        "Qwen3ForTokenClassification": None,
        "Qwen3ForQuestionAnswering": None,
    }
    accepts: ClassVar[Accepted] = {"use_sliding_window": (False,), "is_causal": (True,)}
    defaults: ClassVar[Hub] = {**LlamaFamily.defaults, "head_dim": 128}
    bias_fields: ClassVar[tuple[str, ...]] = ("attention_bias",)
    score_norms: ClassVar[Names] = {"query": "q_norm", "key": "k_norm"}

    def mixer_config(self, model: Model) -> HubConfig:
        return {**super().mixer_config(model), "use_sliding_window": False}
