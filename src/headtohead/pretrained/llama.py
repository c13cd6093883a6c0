"""Llama (Touvron et al. 2023, https://arxiv.org/abs/2302.13971) and those that differ from it by an option: Qwen2
(https://arxiv.org/abs/2407.10671) and Qwen3 (https://arxiv.org/abs/2505.09388).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.config_fields import rope_parameters, rotary_differences, rotary_fields, rotary_overrides
from headtohead.pretrained.model_description import Model
from headtohead.pretrained.model_family import (
    Accepted,
    Architectures,
    Hub,
    HubConfig,
    ModelFamily,
    feedforward_width,
    flag,
    multiple,
    our_activation,
    their_activation,
)
from headtohead.pretrained.weight_mapping import Renamed, WeightMapping, renamed


class LlamaFamily(ModelFamily):
    """Root-mean-square norms before each sublayer, rotary positions, a gated feed-forward, grouped heads."""

    model_type = "llama"
    architectures: ClassVar[Architectures] = {
        "LlamaForCausalLM": "language_model",
        "LlamaModel": None,
        "LlamaForSequenceClassification": None,
        "LlamaForTokenClassification": None,
        "LlamaForQuestionAnswering": None,
    }
    length_field = "max_position_embeddings"
    prefix = "model."
    heads = ("lm_head.", "score.", "qa_outputs.")
    buffers = (r".*rotary_emb\.inv_freq",)
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
    default_base: ClassVar[float] = 10000.0
    feedforward_choice: ClassVar[str] = "swiglu"
    residual: ClassVar[str] = "pre"
    parts: ClassVar[Mapping[str, str]] = {
        "mixer": "SoftmaxAttention",
        "norm": "RmsNorm",
        "residual": "Pre",
        "feedforward": "DenseFeedForward",
    }

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        width, heads = hub["hidden_size"], hub["num_attention_heads"]
        of_head = hub["head_dim"] or width // heads
        own_width = [f"model.{part}.head_width={of_head}" for part in ("mixer", "position") if of_head * heads != width]
        return [
            "model=decoder_only",
            "model/norm=rms_norm",
            f"model/residual={self.residual}",
            f"model/feedforward={self.feedforward_choice}",
            *self.mixer_overrides(hub),
            *rotary_overrides(hub, base=self.default_base, width=of_head),
            *own_width,
            f"model.d_model={width}",
            f"model.num_layers={hub['num_hidden_layers']}",
            f"model.num_heads={heads}",
            f"model.vocab_size={hub['vocab_size']}",
            f"model.norm.eps={hub['rms_norm_eps']}",
            f"model.mixer.num_kv_heads={hub['num_key_value_heads'] or heads}",
            f"model.feedforward.activation={our_activation(hub['hidden_act'])}",
            "model.feedforward.two_thirds=false",
            multiple(hub["intermediate_size"], width),
            f"model.feedforward.bias={flag(hub['mlp_bias'])}",
            f"model.tie_weights={flag(hub['tie_word_embeddings'])}",
        ]

    def mixer_overrides(self, hub: Hub) -> list[str]:
        """Return the overrides of the mixer, without those that all families share."""
        return ["model/mixer=softmax_attention", f"model.mixer.bias={flag(hub['attention_bias'])}"]

    def biased(self, hub: Hub) -> tuple[str, ...]:
        """Return which of the mixer's linear maps have a bias."""
        return ("query", "key", "value", "output") if hub["attention_bias"] else ()

    def differences(self, hub: Hub, head: HeadName) -> Iterator[str]:
        del head
        return rotary_differences(hub, self.default_base)

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        yield Renamed("embedding.weight", "model.embed_tokens.weight")
        for layer in range(hub["num_hidden_layers"]):
            yield from self.block(hub, f"stack.blocks.{layer}", f"model.layers.{layer}")
        yield Renamed("stack.final_norm.scale.weight", "model.norm.weight")

    def block(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        """Yield the weights of one layer."""
        yield Renamed(f"{ours}.wiring.norms.0.scale.weight", f"{theirs}.input_layernorm.weight")
        yield Renamed(f"{ours}.wiring.norms.1.scale.weight", f"{theirs}.post_attention_layernorm.weight")
        yield from self.attention(hub, ours, theirs)
        yield from self.feedforward(hub, ours, theirs)

    def attention(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        """Yield the weights of a layer's projections."""
        for name in ("query", "key", "value", "output"):
            kinds = ("weight", "bias") if name in self.biased(hub) else ("weight",)
            yield from renamed(f"{ours}.mixer.{name}", f"{theirs}.self_attn.{name[0]}_proj", kinds)

    def feedforward(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        """Yield the weights of a layer's feed-forward."""
        for name in ("gate", "up", "down"):
            kinds = ("weight", "bias") if hub["mlp_bias"] else ("weight",)
            yield from renamed(f"{ours}.feedforward.{name}", f"{theirs}.mlp.{name}_proj", kinds)

    def head_pieces(self, hub: Hub, head: HeadName) -> Iterator[WeightMapping]:
        if head == "language_model" and not hub["tie_word_embeddings"]:
            yield Renamed("head.weight", "lm_head.weight")

    def tied(self, hub: Hub) -> Mapping[str, str]:
        return {"lm_head.weight": "model.embed_tokens.weight"} if hub["tie_word_embeddings"] else {}

    def hub_config(self, model: Model) -> HubConfig:
        self.check_parts(model)
        mixer, heads = model["mixer"], model["num_heads"]
        return {
            "model_type": self.model_type,
            "architectures": [next(iter(self.architectures))],
            "hidden_size": model["d_model"],
            "num_hidden_layers": model["num_layers"],
            "num_attention_heads": heads,
            "num_key_value_heads": mixer["num_kv_heads"] or heads,
            "head_dim": mixer["head_width"] or model["d_model"] // heads,
            "intermediate_size": feedforward_width(model),
            "hidden_act": their_activation(model["feedforward"]["activation"]),
            "rms_norm_eps": model["norm"]["eps"],
            **rotary_fields(rope_parameters(model)),
            "max_position_embeddings": model["max_length"],
            "vocab_size": model["vocab_size"],
            "tie_word_embeddings": model["tie_weights"],
            "attention_bias": mixer["bias"],
            "mlp_bias": model["feedforward"]["bias"],
        }


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

    def mixer_overrides(self, hub: Hub) -> list[str]:
        del hub
        return ["model/mixer=softmax_attention", "model.mixer.bias=true", "model.mixer.output_bias=false"]

    def biased(self, hub: Hub) -> tuple[str, ...]:
        del hub
        return ("query", "key", "value")

    def hub_config(self, model: Model) -> HubConfig:
        config = super().hub_config(model)
        del config["attention_bias"], config["mlp_bias"]
        return {**config, "use_sliding_window": False}


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

    def mixer_overrides(self, hub: Hub) -> list[str]:
        normed = ["model.mixer.qk_norm=true", f"model.mixer.qk_norm_eps={hub['rms_norm_eps']}"]
        return [*super().mixer_overrides(hub), *normed]

    def block(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        yield from super().block(hub, ours, theirs)
        for name in ("query", "key"):
            yield Renamed(f"{ours}.mixer.{name}_norm.weight", f"{theirs}.self_attn.{name[0]}_norm.weight")

    def hub_config(self, model: Model) -> HubConfig:
        config = super().hub_config(model)
        del config["mlp_bias"]
        return {**config, "use_sliding_window": False}
