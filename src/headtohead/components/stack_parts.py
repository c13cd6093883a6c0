"""The parts and the size of a stack: records that architectures take from a configuration and hand on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headtohead.components.block import Block, BlockState
from headtohead.components.block_parts import FeedForwardFactory, Norm, NormFactory, ResidualSchemeFactory
from headtohead.components.component import Mixer, MixerFactory, Position, PositionFactory, State
from headtohead.components.mixers.identity import Identity
from headtohead.components.training_hooks import HasAuxiliaryLoss
from headtohead.errors import UsageError
from headtohead.field_group import FieldGroup
from headtohead.ranges import Amount, Depth, Probability, Width

Factory = TypeVar("Factory")


@dataclass(frozen=True)
class StackSize(FieldGroup):
    """The width of the stream, the number of layers, and the heads of each mixer."""

    d_model: Width
    """Width of the stream: channels of a token between layers; num_heads must divide it."""
    num_layers: Depth
    """Blocks, each a mixer and a feed-forward."""
    num_heads: Width
    """Heads of each mixer; must divide d_model."""

    def check(self, layers_field: str = "model.num_layers") -> None:
        """Raise UsageError by the field that holds a size; one side of a model may have a depth of its own."""
        check_sizes(self.d_model, self.num_layers, self.num_heads, layers_field=layers_field)


def check_sizes(d_model: int, num_layers: int, num_heads: int, *, layers_field: str = "model.num_layers") -> None:
    """Raise UsageError by the field that holds a size below one."""
    for name, value in (("model.d_model", d_model), (layers_field, num_layers), ("model.num_heads", num_heads)):
        if value < 1:
            raise UsageError(f"{name}={value} must be at least 1.")


@dataclass(frozen=True)
class PatternFields:
    """The fields that a refusal of a pattern names, which one side of a model may have of its own."""

    pattern: str = "model.pattern"
    layers: str = "model.num_layers"


@dataclass(frozen=True, kw_only=True)
class StackParts(FieldGroup):
    """The slots of a stack, each with the factory that makes its part in every layer."""

    mixer: MixerFactory
    """The sequence mixer of every layer, unless `pattern` names another."""
    pattern: Sequence[str] | None = None
    """Entries of `mixers`, layer by layer, which start again when they end; None has `mixer` in all layers."""
    mixers: Mapping[str, MixerFactory] | None = None
    local: MixerFactory = Identity
    """The local mixer that precedes each mixer."""
    position: PositionFactory
    """The source of order: added to the embedding, a rotation of queries and keys, or a bias on their scores."""
    norm: NormFactory
    """The norm of the sublayers and of the last features; `residual` says where it stands."""
    residual: ResidualSchemeFactory
    """The scheme by which sublayers and norms join the stream."""
    feedforward: FeedForwardFactory
    """The feed-forward of every layer after the first `num_early_layers`, unless `feedforward_pattern` names others."""
    feedforward_pattern: Sequence[str] | None = None
    """Entries of `feedforwards`, layer by layer, which start again when they end, such as a dense one and one of
    experts; None has `feedforward` in all layers."""
    feedforwards: Mapping[str, FeedForwardFactory] | None = None
    """The feed-forwards that `feedforward_pattern` names, by name."""
    num_early_layers: Amount = 0
    """The first layers that have `early_feedforward` instead, such as a dense one before layers of experts."""
    early_feedforward: FeedForwardFactory | None = None
    """The feed-forward of the first `num_early_layers`; None where there are none of these."""

    def mixer_by_layer(self, num_layers: int, fields: PatternFields = PatternFields()) -> list[MixerFactory]:
        """Return the mixer of each layer."""
        if not self.pattern:
            return [self.mixer] * num_layers
        return _named_by_layer(self.pattern, self.mixers or {}, num_layers, "mixer", fields)

    def feedforward_by_layer(
        self, num_layers: int, fields: PatternFields = PatternFields("model.feedforward_pattern")
    ) -> list[FeedForwardFactory]:
        """Return the feed-forward of each layer."""
        early = self.num_early_layers
        if self.feedforward_pattern:
            if early:
                raise UsageError(
                    f"model.num_early_layers={early} gives the first layers a feed-forward of their own, and "
                    f"{fields.pattern} names those of all layers: begin the pattern with it, or set "
                    "model.num_early_layers=0 and model.early_feedforward=null"
                )
            return _named_by_layer(self.feedforward_pattern, self.feedforwards or {}, num_layers, "feedforward", fields)
        if not early:
            return [self.feedforward] * num_layers
        if self.early_feedforward is None:
            raise UsageError(
                f"model.num_early_layers={early} says how many layers have a feed-forward of their own, and there is "
                "none: add it by +model/feedforward@model.early_feedforward=CHOICE"
            )
        if early > num_layers:
            raise UsageError(
                f"model.num_early_layers={early} is more than the {num_layers} layers that there are, by "
                f"{fields.layers}: give at most as many"
            )
        return [self.early_feedforward] * early + [self.feedforward] * (num_layers - early)

    def without_patterns(self) -> StackParts:
        """Return the same parts in every layer, for a stack of another depth."""
        return replace(self, pattern=None, feedforward_pattern=None, num_early_layers=0)


def _named_by_layer(
    pattern: Sequence[str], known: Mapping[str, Factory], num_layers: int, slot: str, fields: PatternFields
) -> list[Factory]:
    """Return what a pattern names for each layer, from its start again where it ends."""
    for name in pattern:
        if name not in known:
            raise UsageError(
                f"{fields.pattern} names {name}, and model.{slot}s has {', '.join(sorted(known)) or 'none'}: "
                f"add it by +model/{slot}@model.{slot}s.{name}=CHOICE"
            )
    if len(pattern) > num_layers:
        raise UsageError(
            f"{fields.pattern} holds {len(pattern)} layers and {fields.layers}={num_layers}: give at least as many "
            "layers"
        )
    return [known[pattern[layer % len(pattern)]] for layer in range(num_layers)]


@dataclass(frozen=True)
class StackOptions(FieldGroup):
    """Further options of a stack: dropout, drop path and a norm after the embedding."""

    dropout: Probability = 0.0
    """The share of values zeroed in training: of the embedding, within sublayers, of what these add, and before the
    classes; 0: none."""
    drop_path: Probability = 0.0
    """Stochastic depth, which grows linearly from 0 at the first block to this at the last; refused with one block."""
    embedding_norm: bool = False
    """Whether the tokens are normalised after positions were added (BERT, BLOOM)."""
    loops: Depth = 1
    """The times that all layers are passed, with the same weights each time (universal transformers, ALBERT)."""
    first_norm: bool = True
    """Whether the first sublayer has a norm; without one it reads what the norm after the embedding gives
    (ModernBERT), which loops would not."""


@dataclass
class StackState(State):
    """The states of all layers, and what the masks of the next tokens need."""

    room: int = 0
    """The number of tokens that it can hold."""
    layers: list[BlockState] = field(default_factory=list)
    embedding_norm: State = field(default_factory=State)
    final_norm: State = field(default_factory=State)
    memories: list[State] = field(default_factory=list)
    """The memories that the cross mixers read; empty before the first step."""
    valid: Bool[Tensor, "B M"] | None = None
    """The mask of tokens that were real, from the first step with padding."""
    positions: Int[Tensor, "B M"] | None = None
    """The positions of the tokens; stored where the position encoding biases scores."""
    rotations: tuple[Float[Tensor, "2 1 1 M R"], ...] = ()
    """The rotation of all tokens that there is room for, made once; rows of different positions make their own."""


def check_loops(stack: nn.Module, loops: int) -> None:
    """Refuse parts that take figures of one pass through their layer, where there are several."""
    for path, part in stack.named_modules() if loops > 1 else ():
        if isinstance(part, HasAuxiliaryLoss) or (isinstance(part, Norm) and part.keeps_statistics):
            raise UsageError(
                f"model.loops={loops} passes each layer several times, and {path} ({type(part).__name__}) takes "
                "figures of one pass: choose another part, or model.loops=1"
            )


def sharing_scores(layers: Sequence[Block]) -> list[Mixer]:
    """Return the mixers of these layers that read the masks and biases that are made for all."""
    mixers = (part for layer in layers for part in layer.modules() if isinstance(part, Mixer))
    return [mixer for mixer in mixers if mixer.reads_scores and mixer.shares_scores]


def sees_window(block: Block) -> bool:
    """Return whether a mixer of the block sees a window alone."""
    return any(isinstance(part, Mixer) and part.sees_window for part in block.mixer.modules())


def position_of_width(position: PositionFactory, width: int) -> PositionFactory:
    """Return the factory of an encoding that is added to embeddings of this width, whatever that of the layers; one
    that acts in the layers stays as it is."""

    def make(d_model: int, **options: object) -> Position:
        made = position(d_model, **options)
        if width == d_model or made.rotates or made.biases_scores:
            return made
        return position(width, **options)

    return make
