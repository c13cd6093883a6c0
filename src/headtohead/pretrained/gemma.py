"""Gemma 2 (2024, https://arxiv.org/abs/2408.00118): a layer of windows, then one that sees all, with capped scores and
logits.

Gemma 3 (2025, https://arxiv.org/abs/2503.19786), its text models: five layers of windows, then one that sees all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.config_fields import (
    base_of_layers,
    listed_kinds,
    mixer_paths,
    pattern_override,
    rope_parameters,
    rotary_differences,
    rotary_fields,
    rotary_overrides,
    shared_fields,
)
from headtohead.pretrained.model_description import Describable, Model, check_describable, described
from headtohead.pretrained.model_family import (
    Accepted,
    Architectures,
    Hub,
    HubConfig,
    InexpressibleError,
    ModelFamily,
    feedforward_width,
    flag,
    multiple,
    our_activation,
    their_activation,
)
from headtohead.pretrained.weight_mapping import OneAbove, Renamed, WeightMapping, renamed

EVERYTHING, WINDOW = "full_attention", "sliding_attention"
_MIXERS = {EVERYTHING: "softmax_attention", WINDOW: "sliding_window"}
_CLASSES = {"SoftmaxAttention": EVERYTHING, "SlidingWindow": WINDOW}
_NORMS = ("input_layernorm", "pre_feedforward_layernorm", "post_attention_layernorm", "post_feedforward_layernorm")
"""Theirs in the order of ours: before each sublayer, then behind each."""
_BASE = 10000.0


class Gemma2Family(ModelFamily):
    """Norms on both sides of each sublayer, whose files hold a gain less one; embeddings times sqrt(d_model); rotary
    positions; soft caps."""

    model_type = "gemma2"
    architectures: ClassVar[Architectures] = {
        "Gemma2ForCausalLM": "language_model",
        "Gemma2Model": None,
        "Gemma2ForSequenceClassification": None,
        "Gemma2ForTokenClassification": None,
    }
    length_field = "max_position_embeddings"
    prefix = "model."
    heads = ("lm_head.", "score.")
    buffers = (r".*rotary_emb.*inv_freq",)
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

    def complete(self, config: Hub) -> Hub:
        hub = super().complete(config)
        scalar = hub["query_pre_attn_scalar"]
        if not isinstance(scalar, int | float) or not scalar > 0:
            raise InexpressibleError(
                f"its config.json has query_pre_attn_scalar={scalar}, which must be a number above 0: correct it"
            )
        return hub

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        width, kinds = hub["hidden_size"], self.layer_kinds(hub)
        of_mixers = [
            f"model.mixers.{_MIXERS[kind]}.{field}={value}"
            for kind in dict.fromkeys(kinds)
            for field, value in self.mixer_fields(hub).items()
        ]
        window = [f"model.mixers.sliding_window.window={hub['sliding_window']}"] if WINDOW in kinds else []
        return [
            "model=decoder_only",
            "model/norm=rms_norm",
            "model/residual=sandwich",
            "model/feedforward=geglu",
            pattern_override(kinds, _MIXERS),
            *of_mixers,
            *window,
            *self.position_overrides(hub),
            f"model.position.head_width={hub['head_dim']}",
            f"model.d_model={width}",
            f"model.num_layers={hub['num_hidden_layers']}",
            f"model.num_heads={hub['num_attention_heads']}",
            f"model.vocab_size={hub['vocab_size']}",
            f"model.norm.eps={hub['rms_norm_eps']}",
            f"model.feedforward.activation={our_activation(hub['hidden_activation'])}",
            "model.feedforward.two_thirds=false",
            multiple(hub["intermediate_size"], width),
            "model.feedforward.bias=false",
            "model.scale_embedding=true",
            f"model.logit_cap={_or_null(hub['final_logit_softcapping'])}",
            f"model.tie_weights={flag(hub['tie_word_embeddings'])}",
        ]

    def layer_kinds(self, hub: Hub) -> list[str]:
        """Return which layers see a window and which everything: as listed, or in turn."""
        return kinds_in_turn(hub, every=2)

    def mixer_fields(self, hub: Hub) -> dict[str, object]:
        """Return the fields of the mixers of either kind."""
        return {
            "bias": flag(hub["attention_bias"]),
            "num_kv_heads": hub["num_key_value_heads"],
            "head_width": hub["head_dim"],
            "scale": float(hub["query_pre_attn_scalar"]) ** -0.5,
            "score_cap": _or_null(hub["attn_logit_softcapping"]),
        }

    def position_overrides(self, hub: Hub) -> list[str]:
        """Return the overrides of the positions, but for the width of a head."""
        return rotary_overrides(hub, base=_BASE, width=hub["head_dim"])

    def differences(self, hub: Hub, head: HeadName) -> Iterator[str]:
        del head
        return rotary_differences(hub, _BASE)

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        yield Renamed("embedding.weight", "model.embed_tokens.weight")
        for layer in range(hub["num_hidden_layers"]):
            ours, theirs = f"stack.blocks.{layer}", f"model.layers.{layer}"
            for number, norm in enumerate(_NORMS):
                yield OneAbove(f"{ours}.wiring.norms.{number}.scale.weight", f"{theirs}.{norm}.weight")
            yield from self.attention(hub, ours, theirs)
            for name in ("gate", "up", "down"):
                yield Renamed(f"{ours}.feedforward.{name}.weight", f"{theirs}.mlp.{name}_proj.weight")
        yield OneAbove("stack.final_norm.scale.weight", "model.norm.weight")

    def attention(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        """Yield the weights of a layer's attention."""
        kinds = ("weight", "bias") if hub["attention_bias"] else ("weight",)
        for name in ("query", "key", "value", "output"):
            yield from renamed(f"{ours}.mixer.{name}", f"{theirs}.self_attn.{name[0]}_proj", kinds)

    def head_pieces(self, hub: Hub, head: HeadName) -> Iterator[WeightMapping]:
        if head == "language_model" and not hub["tie_word_embeddings"]:
            yield Renamed("head.weight", "lm_head.weight")

    def tied(self, hub: Hub) -> Mapping[str, str]:
        return {"lm_head.weight": "model.embed_tokens.weight"} if hub["tie_word_embeddings"] else {}

    def hub_config(self, model: Model) -> HubConfig:
        paths = mixer_paths(model)
        check_describable(model, self.model_type, self.words(paths))
        mixer = shared_fields(model, paths, self.model_type)
        width = mixer["head_width"] or model["d_model"] // model["num_heads"]
        return {
            "model_type": self.model_type,
            "architectures": [next(iter(self.architectures))],
            "vocab_size": model["vocab_size"],
            "hidden_size": model["d_model"],
            "num_hidden_layers": model["num_layers"],
            "num_attention_heads": model["num_heads"],
            "num_key_value_heads": mixer["num_kv_heads"] or model["num_heads"],
            "head_dim": width,
            "intermediate_size": feedforward_width(model),
            "hidden_activation": their_activation(model["feedforward"]["activation"]),
            "max_position_embeddings": model["max_length"],
            "rms_norm_eps": model["norm"]["eps"],
            "attention_bias": mixer["bias"],
            "query_pre_attn_scalar": self._scalar(mixer["scale"], width),
            "layer_types": [_CLASSES[described(model, path)] for path in paths],
            "sliding_window": mixer.get("window", self.defaults["sliding_window"]),
            "attn_logit_softcapping": mixer["score_cap"],
            "final_logit_softcapping": model["logit_cap"],
            **self.rotary_fields(model),
            "tie_word_embeddings": model["tie_weights"],
        }

    def rotary_fields(self, model: Model) -> HubConfig:
        """Return the positions of a model of ours as a file has them, in both spellings."""
        return rotary_fields(rope_parameters(model))

    def words(self, paths: list[str]) -> Describable:
        """Return what this format can express."""
        words: dict[str, Sequence[object]] = {
            "": ("DecoderOnly",),
            "local": (None, "Identity"),
            "position.fraction": (1.0,),
            "position.pairing": ("half",),
            "norm": ("RmsNorm",),
            "residual": ("Sandwich",),
            "feedforward": ("DenseFeedForward",),
            "feedforward.gated": (True,),
            "feedforward.bias": (False,),
            "scale_embedding": (True,),
            "embedding_norm": (False,),
            "head_bias": (False,),
        }
        for path in dict.fromkeys(paths):
            words |= {path: tuple(_CLASSES), f"{path}.qk_norm": (False,)}
        return words

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


def kinds_in_turn(hub: Hub, *, every: int) -> list[str]:
    """Return which layers see a window and which everything: as listed, or every so many-th one everything."""
    if hub["layer_types"] is not None:
        return listed_kinds(hub, _MIXERS)
    return [WINDOW if (layer + 1) % every else EVERYTHING for layer in range(hub["num_hidden_layers"])]


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

    def rotary_fields(self, model: Model) -> HubConfig:
        position = model["position"]
        base, local_base = position["base"], position["local_base"]
        local_base = base if local_base is None else local_base
        rope = {EVERYTHING: {"rope_theta": base}, WINDOW: {"rope_theta": local_base}}
        return {
            "rope_parameters": {kind: {"rope_type": "default", **fields} for kind, fields in rope.items()},
            "rope_theta": base,
            "rope_local_base_freq": local_base,
        }

    def words(self, paths: list[str]) -> Describable:
        words = {**super().words(paths), "position": ("Rotary",)}
        for path in dict.fromkeys(paths):
            words |= {f"{path}.qk_norm": (True,), f"{path}.qk_norm_over": ("head",)}
        return words
