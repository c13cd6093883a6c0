"""A family of published models defines how its configuration composes ours and how its weights become ours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, ClassVar

from headtohead.architectures.head_names import HeadName
from headtohead.components.feedforwards import inner_width
from headtohead.errors import UsageError
from headtohead.pretrained.weight_mapping import Renamed, WeightMapping

_ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_accurate": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "sigmoid": "sigmoid",
    "tanh": "tanh",
    "relu2": "squared_relu",
}


def our_activation(name: str) -> str:
    """Return our activation of the hub's name."""
    if name not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise InexpressibleError(f"its activation {name} is not supported: choose a checkpoint with one of {known}")
    return _ACTIVATIONS[name]


def their_activation(name: str) -> str:
    """Return the hub's name of an activation of ours."""
    return next(theirs for theirs, ours in _ACTIVATIONS.items() if ours == name)


def flag(value: bool) -> str:
    """Write a boolean as an override does."""
    return str(value).lower()


def multiple(inner: int, width: int) -> str:
    """Return the override that gives a feed-forward this inner width."""
    return f"model.feedforward.multiple={inner / width}"


def feedforward_width(model: Mapping[str, Any], slot: str = "feedforward") -> int:
    """Return the inner width that a model's configuration asks for."""
    node = model[slot]
    return inner_width(model["d_model"], node["multiple"], two_thirds=node["two_thirds"])


Hub = Mapping[str, Any]
"""A checkpoint's config.json, completed with the defaults of its class."""

HubConfig = dict[str, Any]
"""A config.json to be written."""
Architectures = Mapping[str, HeadName | None]
"""The hub's classes, each with the head of ours that its own is; None where it has none that we could take."""
Accepted = Mapping[str, tuple[Any, ...]]
"""Fields with the values that we can express."""

COUNTS = frozenset({
    "attention_hidden_size", "block_multiple_of", "block_size", "conv_kernel", "conv_L_cache", "d_ff", "d_kv",
    "d_model", "decoder_attention_heads", "decoder_ffn_dim", "decoder_layers", "embed_dim", "embedding_size",
    "encoder_attention_heads", "encoder_ffn_dim", "encoder_layers", "expand", "head_dim", "hidden_size",
    "inner_group_num", "intermediate_size", "kv_lora_rank", "linear_conv_kernel_dim", "linear_head_dim",
    "linear_key_head_dim", "linear_num_heads", "linear_num_key_heads", "linear_num_value_heads",
    "linear_value_head_dim", "mamba_d_conv", "mamba_d_state", "mamba_expand", "mamba_n_groups", "mamba_n_heads",
    "max_position_embeddings", "moe_intermediate_size", "n_embd", "n_group", "n_groups", "n_head", "n_heads", "n_inner",
    "n_layer", "n_layers", "n_positions", "n_routed_experts", "num_attention_heads", "num_channels",
    "num_decoder_layers", "num_experts_per_tok", "num_heads", "num_hidden_layers", "num_key_value_heads", "num_layers",
    "num_local_experts", "q_lora_rank", "qk_head_dim", "qk_nope_head_dim", "qk_rope_head_dim",
    "relative_attention_max_distance", "relative_attention_num_buckets", "rotary_dim",
    "shared_expert_intermediate_size", "sliding_window", "state_size", "topk_group", "v_head_dim", "vocab_size",
    "window_size",
})  # fmt: skip
"""Fields that hold a whole number above 0, or null where a family knows what that means."""


READING: frozenset[HeadName] = frozenset({"classifier", "regressor", "text_vector", "tagger", "span"})
"""Heads that read a whole text and write none."""


ALONE = ("model=encoder_only", "model.num_segments=0", "model.pooling=mean")
"""The limits of an encoder taken from an encoder-decoder: it has no sentence types, and no token that represents the
row."""


class InexpressibleError(UsageError):
    """A model that the other side cannot express; the message names the choice, and the remedy."""


class OtherArchitectureError(InexpressibleError):
    """A model of another architecture than the family's; nothing else about it has been compared."""


class ModelFamily(ABC):
    """All that differs from family to family; reading and writing of files is the same for all."""

    model_type: ClassVar[str]
    """That of config.json."""
    architectures: ClassVar[Architectures]
    made_of_mixers: ClassVar[bool] = True
    """Whether its models are stacks of mixers, as almost all are."""
    prefix: ClassVar[str] = ""
    """The prefix of the body's names in a model with a head, absent in one without."""
    heads: ClassVar[tuple[str, ...]] = ()
    """The prefixes of their heads' names: ignored where the task has another head."""
    buffers: ClassVar[tuple[str, ...]] = ()
    """Patterns of names that hold no weights: masks, frequencies, positions."""
    table: ClassVar[str] = ""
    """The name of the table of tokens that the matrix of its head may be; empty where heads are another matter."""
    head_matrix: ClassVar[str] = "lm_head.weight"
    aliases: ClassVar[Mapping[str, str]] = {}
    """Names that some files have instead of others."""
    defaults: ClassVar[Hub] = {}
    """The defaults of the class where config.json has no value."""
    accepts: ClassVar[Accepted] = {}
    """A field that is not among them may have any value."""
    lists: ClassVar[frozenset[str]] = frozenset()
    """Fields that hold a number for each stage, where other families have one."""
    synonyms: ClassVar[Mapping[str, str]] = {}
    """Other names of fields, each with the name that is read here; a file may hold both."""
    length_field: ClassVar[str | None] = None
    """The field for the longest row, where no weight depends on it."""
    parts: ClassVar[Mapping[str, str]] = {}
    """The classes that a model of ours must be made of to be written in this form, by the slots they fill."""

    def complete(self, config: Mapping[str, object]) -> Hub:
        """Return config.json with the class's defaults filled in; refuse what we cannot express."""
        hub = {**self.defaults, **self._in_one_spelling(config)}
        if quantized := hub.get("quantization_config"):
            kind = quantized.get("quant_method", "?") if isinstance(quantized, Mapping) else quantized
            raise InexpressibleError(
                f"its config.json has quantization_config, whose weights are coded ({kind}): choose a checkpoint with "
                "weights in bfloat16 or float32"
            )
        for field in sorted((COUNTS - self.lists) & hub.keys()):
            value = hub[field]
            if value is not None and (type(value) is not int or value < 1):
                raise InexpressibleError(
                    f"its config.json has {field}={value}, which must be a whole number above 0: correct it"
                )
        for field, values in self.accepts.items():
            if field in hub and hub[field] not in values:
                allowed = " or ".join(str(value) for value in values)
                raise InexpressibleError(
                    f"its config.json has {field}={hub[field]}, and our {self.model_type} supports only {allowed}: "
                    "choose another checkpoint"
                )
        return hub

    def _in_one_spelling(self, config: Mapping[str, object]) -> dict[str, Any]:
        """Return the fields under the names that are read here; refuse two spellings with different values."""
        spelt = dict(config)
        for other, field in self.synonyms.items():
            if other not in config:
                continue
            if field in config and config[field] != config[other]:
                raise InexpressibleError(
                    f"its config.json has {field}={config[field]} and {other}={config[other]}, which are two names of "
                    "one field: correct one of them"
                )
            spelt[field] = config[other]
        return spelt

    def written(self, config: Mapping[str, object]) -> Hub:
        """Return a config.json that `hub_config` made, completed, so that nothing depends on names of tensors."""
        return self.complete(config)

    def completed_by_names(self, hub: Hub, names: Callable[[], Container[str]]) -> Hub:
        """Return the completed config.json with what only the names of the file's tensors reveal."""
        del names
        return hub

    def differences(self, hub: Hub, head: HeadName) -> Iterator[str]:
        """Return a sentence for each difference from the reference by design."""
        del hub, head
        return iter(())

    def check_parts(self, model: Mapping[str, object]) -> None:
        """Raises InexpressibleError where a model of ours is made of other classes."""
        self.check_classes(model, self.parts)

    def check_classes(self, model: Mapping[str, Any], parts: Mapping[str, str]) -> None:
        """Refuse classes that the family cannot express."""
        for slot, name in {"": "DecoderOnly", **parts}.items():
            chosen = choice(model[slot] if slot else model)
            if chosen != name:
                refusal = InexpressibleError if slot else OtherArchitectureError
                raise refusal(
                    f"{'.'.join(filter(None, ('model', slot)))} is {chosen}, and {self.model_type} has {name}"
                )

    @abstractmethod
    def overrides(self, hub: Hub, head: HeadName) -> list[str]:
        """Return the overrides that compose our model, `model=decoder_only model.d_model=768 ...`; refuse what we
        cannot express."""

    @abstractmethod
    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        """Yield all weights below the head, under the names of a model with a head."""

    def body(self, hub: Hub, head: HeadName) -> Iterator[WeightMapping]:
        """Yield the weights below this head of ours."""
        del head
        return self.pieces(hub)

    def beside(self, hub: Hub, head: HeadName) -> tuple[str, ...]:
        """Return the prefixes of the weights that a model with this head of ours ignores."""
        del hub, head
        return self.heads

    def head_pieces(self, hub: Hub, head: HeadName) -> Iterator[WeightMapping]:
        """Yield the weights of a head of ours, without those tied to the embedding."""
        if self.table and head == "language_model" and not hub["tie_word_embeddings"]:
            yield Renamed("head.weight", self.head_matrix)

    def tied(self, hub: Hub) -> Mapping[str, str]:
        """Map aliases of their weights to the first name: an older file may hold both."""
        return {self.head_matrix: self.table} if self.table and hub["tie_word_embeddings"] else {}

    def hub_config(self, model: Mapping[str, object]) -> HubConfig:
        """Return config.json for a model of ours from its composed configuration; raise InexpressibleError."""
        del model
        raise InexpressibleError(f"models are read from the form of {self.model_type}, not written in it")


class EncoderDecoderFamily(ModelFamily):
    """An encoder-decoder. Under a head that reads a text, its encoder alone is taken, as model=encoder_only."""

    decoder: ClassVar[str]
    """The prefix of the decoder's weights."""

    @abstractmethod
    def side(self, hub: Hub, side: str, ours: str) -> Iterator[WeightMapping]:
        """Yield the weights of the encoder or of the decoder, as those of our stack of that name."""

    @abstractmethod
    def embedding(self) -> WeightMapping:
        """Return the mapping of the token table that both sides share."""

    def pieces(self, hub: Hub) -> Iterator[WeightMapping]:
        yield self.embedding()
        for side in ("encoder", "decoder"):
            yield from self.side(hub, side, side)

    def body(self, hub: Hub, head: HeadName) -> Iterator[WeightMapping]:
        if head not in READING:
            yield from self.pieces(hub)
            return
        yield self.embedding()
        yield from self.side(hub, "encoder", "stack")

    def beside(self, hub: Hub, head: HeadName) -> tuple[str, ...]:
        del hub
        return (*self.heads, self.decoder) if head in READING else self.heads


def choice(node: Mapping[str, object]) -> str:
    """Return the class that a node of a configuration builds, without its module."""
    return str(node.get("_target_", "")).rpartition(".")[2]
