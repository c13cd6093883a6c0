"""Decoders whose files name their weights as Llama's do: a table, layers, a last norm, and a head that may be the
table. Their layers are all alike, or of kinds that follow a pattern."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.pretrained.config_fields import rope_parameters, rotary_differences, rotary_fields, rotary_overrides
from headtohead.pretrained.layer_kinds import (
    EVERYTHING,
    WINDOW,
    WINDOWS,
    LayerKind,
    check_period,
    kinds_of_layers,
    listed_kinds,
    mixer_paths,
    pattern_override,
    shared_fields,
)
from headtohead.pretrained.model_description import Describable, Model, check_describable
from headtohead.pretrained.model_family import (
    Accepted,
    Hub,
    HubConfig,
    ModelFamily,
    feedforward_width,
    flag,
    our_activation,
    their_activation,
)
from headtohead.pretrained.weight_mapping import OneToOneMapping, Renamed, WeightMapping, renamed, weight_kinds

Names = Mapping[str, str]
"""Names of theirs by ours."""
GATED: Names = {name: f"{name}_proj" for name in ("gate", "up", "down")}
NUMBERED: Names = {"gate": "w1", "up": "w3", "down": "w2"}
_BIASES = ("attention_bias", "mlp_bias")


class DecoderFamily(ModelFamily):
    """A decoder of layers with a norm before each sublayer, rotary positions, and a gated feed-forward."""

    length_field = "max_position_embeddings"
    prefix = "model."
    heads = ("lm_head.", "score.", "qa_outputs.")
    buffers: ClassVar[tuple[str, ...]] = (r".*rotary_emb.*inv_freq",)
    accepts: ClassVar[Accepted] = {"is_causal": (True,)}
    table = "model.embed_tokens.weight"
    default_base: ClassVar[float] = 10000.0
    pairing: ClassVar[str] = "half"
    bias_fields: ClassVar[tuple[str, ...]] = ()
    """The fields of biases that its config.json has; without a field there are none."""
    eps_field: ClassVar[str] = "rms_norm_eps"
    activation_field: ClassVar[str] = "hidden_act"
    norm: ClassVar[tuple[str, str]] = ("rms_norm", "RmsNorm")
    """Our choice of the norm, and its class."""
    residual: ClassVar[tuple[str, str]] = ("pre", "PreNorm")
    feedforward: ClassVar[tuple[str, str]] = ("swiglu", "DenseFeedForward")
    gain: ClassVar[type[OneToOneMapping]] = Renamed
    """The mapping of the gains of norms."""
    gain_name: ClassVar[str] = "scale.weight"
    """The name of a gain within a norm of ours."""
    layer_norms: ClassVar[tuple[str, ...]] = ("input_layernorm", "post_attention_layernorm")
    """Their norms of a layer in the order of ours."""
    last_norm: ClassVar[str] = "model.norm"
    projections: ClassVar[Names] = {name: f"{name[0]}_proj" for name in ("query", "key", "value", "output")}
    score_norms: ClassVar[Names] = {}
    """The norms of queries and keys."""
    feedforward_names: ClassVar[Names] = GATED
    feedforward_place: ClassVar[str] = "mlp"
    expert_names: ClassVar[Names] = GATED
    experts_field: ClassVar[str] = "num_local_experts"
    scaled_embedding: ClassVar[bool] = False

    def complete(self, config: Hub) -> Hub:
        """Complete the configuration: where there is no field for biases, there are none."""
        return {**super().complete(config), **dict.fromkeys(set(_BIASES) - set(self.bias_fields), False)}

    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        del head
        return [
            "model=decoder_only",
            f"model/norm={self.norm[0]}",
            f"model/residual={self.residual[0]}",
            *self.feedforward_overrides(hub),
            *self.mixer_overrides(hub),
            *self.position_overrides(hub),
            f"model.d_model={hub['hidden_size']}",
            f"model.num_layers={hub['num_hidden_layers']}",
            f"model.num_heads={hub['num_attention_heads']}",
            f"model.vocab_size={hub['vocab_size']}",
            f"model.norm.eps={hub[self.eps_field]}",
            f"model.tie_weights={flag(hub['tie_word_embeddings'])}",
            f"model.scale_embedding={flag(self.scaled_embedding)}",
        ]

    def head_width(self, hub: Hub) -> int:
        """Return the width of a head of attention."""
        width: int = hub["head_dim"] or hub["hidden_size"] // hub["num_attention_heads"]
        return width

    def rotated(self, hub: Hub) -> int | None:
        """Return how many channels of a head turn; None means all of them, without a field that says so."""
        del hub
        return None

    def position_overrides(self, hub: Hub) -> list[str]:
        """Return the overrides of the positions."""
        of_head = self.head_width(hub)
        overrides = rotary_overrides(
            hub, base=self.default_base, width=of_head, rotated=self.rotated(hub), pairing=self.pairing
        )
        is_share = of_head * hub["num_attention_heads"] == hub["hidden_size"]
        return overrides if is_share else [*overrides, f"model.position.head_width={of_head}"]

    @abstractmethod
    def mixer_overrides(self, hub: Hub) -> list[str]:
        """Return the overrides of the mixers."""

    def attention_overrides(self, hub: Hub) -> dict[str, object]:
        """Return the fields of a mixer that is attention."""
        normed = {"qk_norm": "true", "qk_norm_eps": hub[self.eps_field]} if self.score_norms else {}
        return {
            "bias": flag(hub["attention_bias"]),
            "num_kv_heads": hub["num_key_value_heads"] or hub["num_attention_heads"],
            "head_width": self.head_width(hub),
            **normed,
        }

    def feedforward_overrides(self, hub: Hub) -> list[str]:
        """Return the overrides of the feed-forward."""
        return gated_overrides(
            hub, self.feedforward[0], hub["intermediate_size"], self.activation(hub), bias=hub["mlp_bias"]
        )

    def activation(self, hub: Hub) -> str:
        """Return our name of the activation."""
        return our_activation(hub[self.activation_field])

    def differences(self, hub: Hub, head: HeadName) -> Iterator[str]:
        del head
        return rotary_differences(hub, self.default_base)

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        yield Renamed("embedding.weight", self.table)
        for layer in range(hub["num_hidden_layers"]):
            ours, theirs = f"stack.blocks.{layer}", f"model.layers.{layer}"
            for number, norm in enumerate(self.layer_norms):
                yield self.gain(f"{ours}.wiring.norms.{number}.{self.gain_name}", f"{theirs}.{norm}.weight")
            yield from self.mixer_pieces(hub, layer, f"{ours}.mixer", theirs)
            yield from self.feedforward_pieces(hub, layer, f"{ours}.feedforward", f"{theirs}.{self.feedforward_place}")
        yield self.gain(f"stack.final_norm.{self.gain_name}", f"{self.last_norm}.weight")

    def mixer_pieces(self, hub: Hub, layer: int, ours: str, theirs: str) -> Iterator[WeightMapping]:
        """Yield the weights of a layer's mixer, which are attention's."""
        del layer
        return self.attention(hub, ours, f"{theirs}.self_attn")

    def attention(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        """Yield the weights of a layer's attention."""
        for name, their_name in self.projections.items():
            yield from renamed(f"{ours}.{name}", f"{theirs}.{their_name}", weight_kinds(name in self.biased(hub)))
        for name, their_name in self.score_norms.items():
            yield self.gain(f"{ours}.{name}_norm.weight", f"{theirs}.{their_name}.weight")

    def biased(self, hub: Hub) -> Sequence[str]:
        """Return which of the maps of attention have a bias."""
        return ("query", "key", "value", "output") if hub["attention_bias"] else ()

    def feedforward_pieces(self, hub: Hub, layer: int, ours: str, theirs: str) -> Iterator[WeightMapping]:
        """Yield the weights of a layer's feed-forward."""
        del layer
        return gated_pieces(ours, theirs, self.feedforward_names, weight_kinds(hub["mlp_bias"]))

    def experts(self, hub: Hub, ours: str, theirs: str) -> Iterator[WeightMapping]:
        """Yield the weights of a layer's experts, which files hold one by one."""
        for expert in range(hub[self.experts_field]):
            yield from gated_pieces(f"{ours}.{expert}", f"{theirs}.{expert}", self.expert_names)

    def hub_config(self, model: Model) -> HubConfig:
        check_describable(model, self.model_type, self.words(model))
        return {
            "model_type": self.model_type,
            "architectures": [next(iter(self.architectures))],
            "vocab_size": model["vocab_size"],
            "hidden_size": model["d_model"],
            "num_hidden_layers": model["num_layers"],
            "num_attention_heads": model["num_heads"],
            **self.mixer_config(model),
            **self.feedforward_config(model),
            **self.position_config(model),
            "max_position_embeddings": model["max_length"],
            self.eps_field: model["norm"]["eps"],
            "tie_word_embeddings": model["tie_weights"],
        }

    @abstractmethod
    def mixer_config(self, model: Model) -> HubConfig:
        """Return the fields of the mixers."""

    def attention_config(self, model: Model, mixer: Hub) -> HubConfig:
        """Return the fields of config.json for those of attention; of a model without it if there are none."""
        heads = model["num_heads"]
        width = mixer.get("head_width") or model["position"].get("head_width") or model["d_model"] // heads
        bias = {"attention_bias": mixer.get("bias", False)} if "attention_bias" in self.bias_fields else {}
        return {"num_key_value_heads": mixer.get("num_kv_heads") or heads, "head_dim": width, **bias}

    def feedforward_config(self, model: Model) -> HubConfig:
        """Return the fields of the feed-forward."""
        node = model["feedforward"]
        bias = {"mlp_bias": node["bias"]} if "mlp_bias" in self.bias_fields else {}
        activation = their_activation(node["activation"])
        return {"intermediate_size": feedforward_width(model), self.activation_field: activation, **bias}

    def position_config(self, model: Model) -> HubConfig:
        """Return the fields of the positions, in both spellings."""
        return rotary_fields(rope_parameters(model))

    def words(self, model: Model) -> Describable:
        """Return what this format can express."""
        biases = (False, True) if "mlp_bias" in self.bias_fields else (False,)
        words: dict[str, Sequence[object]] = {
            "": ("DecoderOnly",),
            "norm": (self.norm[1],),
            "residual": (self.residual[1],),
            "feedforward": (self.feedforward[1],),
            "feedforward.gated": (True,),
            "feedforward.bias": biases,
            **dict.fromkeys(("embedding_norm", "head_bias"), (None, False)),
            "scale_embedding": (True,) if self.scaled_embedding else (None, False),
            "local": (None, "Identity"),
        }
        for path in dict.fromkeys(mixer_paths(model)):
            words |= self.mixer_words(model, path)
        return words

    @abstractmethod
    def mixer_words(self, model: Model, path: str) -> Describable:
        """Return what this format can express of a mixer."""


class PatternedFamily(DecoderFamily):
    """A decoder with layers of several kinds, which `layer_types` lists."""

    kinds: ClassVar[Mapping[str, LayerKind]]
    """The mixers by the kinds of their layers: attention to everything first, the most frequent one last."""
    every: ClassVar[int | str] = 2
    """The number of layers from one that sees everything to the next, or the field that holds it."""

    def layer_kinds(self, hub: Hub) -> list[str]:
        """Return the kind of each layer, as listed or as usual."""
        return self.usual_kinds(hub) if hub["layer_types"] is None else listed_kinds(hub, self.kinds)

    def usual_kinds(self, hub: Hub) -> list[str]:
        """Return the kinds of layers where none are listed: one that sees everything after some of the other kind."""
        if isinstance(self.every, str):
            check_period(hub, self.every)
        every = hub[self.every] if isinstance(self.every, str) else self.every
        other = list(self.kinds)[-1]
        return [other if (layer + 1) % every else EVERYTHING for layer in range(hub["num_hidden_layers"])]

    @abstractmethod
    def mixer_fields(self, hub: Hub, kind: str) -> Mapping[str, object]:
        """Return the fields of the mixers in layers of this kind."""

    def mixer_overrides(self, hub: Hub) -> list[str]:
        kinds = self.layer_kinds(hub)
        fields = [
            f"model.mixers.{self.kinds[kind].choice}.{field}={value}"
            for kind in dict.fromkeys(kinds)
            for field, value in self.mixer_fields(hub, kind).items()
        ]
        return [pattern_override(kinds, self.kinds), *fields]

    def mixer_config(self, model: Model) -> HubConfig:
        """Return the fields of the mixers; without attention the cache of transformers has no length, and is off."""
        kinds = kinds_of_layers(model, self.kinds)
        by_kind: dict[str, list[str]] = {kind: [] for kind in self.kinds}
        for kind, path in zip(kinds, mixer_paths(model), strict=True):
            by_kind[kind].append(path)
        fields = {kind: shared_fields(model, paths, self.model_type) for kind, paths in by_kind.items()}
        cache = {} if {EVERYTHING, WINDOW} & set(kinds) else {"use_cache": False}
        return {**self.kinds_config(kinds), **self.config_of_kinds(model, fields), **cache}

    def kinds_config(self, kinds: Sequence[str]) -> HubConfig:
        """Return the field of config.json that lists the kinds of layers."""
        return {"layer_types": list(kinds)}

    @abstractmethod
    def config_of_kinds(self, model: Model, by_kind: Mapping[str, Hub]) -> HubConfig:
        """Return the fields of config.json for those of the mixers of each kind; a kind without layers has none."""

    def mixer_words(self, model: Model, path: str) -> Describable:
        del model
        return {path: tuple(kind.made_by for kind in self.kinds.values())}


class WindowedFamily(PatternedFamily):
    """A decoder of which some layers see everything and others a window, by attention that is alike but for that."""

    kinds: ClassVar[Mapping[str, LayerKind]] = WINDOWS

    def mixer_fields(self, hub: Hub, kind: str) -> Mapping[str, object]:
        window = {} if kind == EVERYTHING else {"window": hub["sliding_window"]}
        return {**self.attention_overrides(hub), **window}

    def config_of_kinds(self, model: Model, by_kind: Mapping[str, Hub]) -> HubConfig:
        del by_kind
        mixer = shared_fields(model, mixer_paths(model), self.model_type)
        window = mixer.get("window", self.defaults["sliding_window"])
        return {**self.attention_config(model, mixer), "sliding_window": window}


def gated_pieces(
    ours: str, theirs: str, names: Names = GATED, kinds: Sequence[str] = ("weight",)
) -> Iterator[WeightMapping]:
    """Yield the weights of a gated layer."""
    for our_name, their_name in names.items():
        yield from renamed(f"{ours}.{our_name}", f"{theirs}.{their_name}", kinds)


def gated_overrides(
    hub: Hub, choice: str, inner: int, activation: str, *, slot: str = "feedforward", bias: bool = False
) -> list[str]:
    """Return the overrides of a gated feed-forward of this inner width."""
    fields = {
        "activation": activation,
        "multiple": inner / hub["hidden_size"],
        "two_thirds": "false",
        "bias": flag(bias),
    }
    chosen = f"model/feedforward={choice}" if slot == "feedforward" else f"+model/feedforward@model.{slot}={choice}"
    return [chosen, *(f"model.{slot}.{name}={value}" for name, value in fields.items())]
