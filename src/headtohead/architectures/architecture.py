"""Every architecture declares its features, a head, and a ledger of costs; one that writes reads a prompt once, then
each token costs one step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headtohead.components.component import Component, Context, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.stack_parts import StackState
from headtohead.errors import UsageError


@dataclass(frozen=True)
class InputSize:
    """The size of one sample, for which costs are computed."""

    length: int = 0
    """Tokens read by the encoder or decoder; for images, the model's own patches count instead."""
    decoder_length: int = 0
    bytes_per_element: int = 4
    device: str = "cpu"
    """The type of the device that computes."""
    scored: int | None = None
    """Positions whose logits are made, where a loss reads but some (masked tokens, answers); None means all."""

    def query(self, length: int, memory_length: int = 0) -> CostContext:
        """Return the cost query of a component that reads so many tokens."""
        return CostContext(length, memory_length, self.bytes_per_element, device=self.device)


@dataclass(frozen=True)
class CostRow:
    """One line of the ledger: a component's path in the model, what it is, and what it costs per sample."""

    path: str
    kind: str
    """embedding, position, mixer, cross, feedforward, wiring, norm, head, unembedding ..."""
    costs: Costs
    side: Literal["source", "target"] = "source"
    """The tokens of an encoder-decoder that the FLOPs are for, by their side."""
    counted: bool = False
    """Whether the costs were counted while it ran, since it declares none."""


class Head(Component):
    """Turns features into logits."""

    needs_all_logits: ClassVar[bool] = False
    """Whether a loss needs the logits of all positions, however few of them are targets."""

    hides_input: ClassVar[bool] = False
    """Whether what is scored is what the body does not read, so that it reads the less the more is scored."""

    has_stack: ClassVar[bool] = False
    """Whether it has layers of its own, all of the model's shared parts, whatever the model's patterns name."""

    @abstractmethod
    def forward(self, features: Tensor, valid: Tensor | None = None, token_types: Tensor | None = None) -> Tensor:
        """Return logits: [B, L, V] of a language-model head, [B, classes] of a classifier."""

    @abstractmethod
    def cost_rows(self, query: CostContext) -> Iterator[tuple[str, str, Costs]]:
        """Yield path, kind and costs of every part; their sum is the head."""

    def costs(self, query: CostContext) -> Costs:
        return sum((costs for _, _, costs in self.cost_rows(query)), Costs())

    def query(self, size: InputSize, length: int) -> CostContext:
        """Return the cost query of this head over that many features of a sample."""
        num_rows = length if self.needs_all_logits or size.scored is None else size.scored
        return size.query(num_rows)


class Architecture(nn.Module, ABC):
    """Components wired into a model. Keyword tensors in, logits out; the names are those of Batch.inputs()."""

    family: ClassVar[str]
    """The kind of model, as lists name it: decoder_only."""
    no_mup_rule: ClassVar[str] = "no rule for it is known"
    """The reason, as for a component, of the parts besides blocks and head."""
    needs_real_device: ClassVar[bool] = False
    """Whether it has to be built on a real device, because a module may not support the meta device."""
    trained_by_steps: ClassVar[bool] = True
    """Whether it trains by steps; a model that does not learns from all rows at once, whatever trainer.max_steps is."""
    forward_methods: ClassVar[tuple[str, ...]] = ("features",)
    """The methods besides `forward` that run weights, which a model sharded over devices gathers for them."""
    head: Head
    """The head that turns features into logits."""

    @abstractmethod
    def features(self, *args: Any, **inputs: Any) -> Float[Tensor, "B L D"]:
        """Return everything before the head. The first positional argument is tokens (or images)."""

    def forward(self, *args: Any, **inputs: Any) -> Tensor:
        """Apply the head to the features."""
        logits: Tensor = self.head(self.features(*args, **inputs), inputs.get("valid"), inputs.get("token_types"))
        return logits

    def length_error(self, size: InputSize) -> str | None:
        """Return why samples of this size are too long; None where they are not, as for all architectures without a
        weight for every position."""
        del size
        return None

    @abstractmethod
    def num_tokens(self, size: InputSize) -> int:
        """Return the tokens of one sample, on both sides together: the denominator of costs per token."""

    @abstractmethod
    def cost_rows(self, size: InputSize) -> Iterator[CostRow]:
        """Yield the ledger, component by component; its sum is the model."""

    @abstractmethod
    def example_inputs(self, size: InputSize, batch_size: int, device: torch.device) -> dict[str, Tensor]:
        """Return inputs of the right shape and kind, for inspection and benchmarks."""


def required(name: str, value: int | None, what: str) -> int:
    """Check a number that the data or the user must give."""
    if value is None:
        raise UsageError(f"model.{name} is missing: {what}.")
    if value < 1:
        raise UsageError(f"model.{name}={value} must be at least 1.")
    return value


def check_image_shape(image_shape: Sequence[int] | None) -> tuple[int, int, int]:
    if image_shape is None or len(image_shape) != 3:
        raise UsageError(
            f"model.image_shape={image_shape} must be channels, height and width: give data with images, or numbers."
        )
    channels, height, width = image_shape
    return channels, height, width


@dataclass
class DecodingState(State):
    """The state of a model in the rows that it writes. Every tensor in it has the batch as its first dimension."""

    stack: StackState = field(default_factory=StackState)
    """The state of the stack that writes."""
    padding: Int[Tensor, "B 1"] | None = None
    """The number of padding tokens before each row; None where there are none."""
    memory: Float[Tensor, "B S D"] | None = None
    """The encoded source, where there is one."""
    memory_valid: Bool[Tensor, "B S"] | None = None

    def context(self, num_tokens: int, valid: Bool[Tensor, "B L"] | None = None) -> Context:
        """Return the stack's context for so many next tokens: a row's positions count from its first real token."""
        positions = None
        if self.padding is not None:
            start = self.stack.length
            indices = torch.arange(start, start + num_tokens, device=self.padding.device)
            positions = (indices - self.padding).clamp_(min=0)
        return Context(valid=valid, positions=positions, memory=self.memory, memory_valid=self.memory_valid)


class DecodingModel(Architecture):
    """An architecture that writes one token after another, in time that does not grow with the tokens read (except for
    attention to them)."""

    reads_source: ClassVar[bool] = False
    """Whether the prompt is a separate source, padded on the right, so that writing begins with a start token;
    otherwise writing continues the prompt, which is padded on the left."""

    @property
    @abstractmethod
    def longest_written(self) -> int | None:
        """Return the most tokens that a row can have on the side that writes, the prompt (or the start token)
        included."""

    @abstractmethod
    def prefill(
        self, tokens: Int[Tensor, "B L"], valid: Bool[Tensor, "B L"] | None, *, room: int, bos_id: int
    ) -> tuple[Float[Tensor, "B V"], DecodingState]:
        """Read prompts: return the logits of the first token to be written, and a state with room for `room` tokens."""

    @abstractmethod
    def decode_step(self, tokens: Int[Tensor, "B L"], state: DecodingState) -> Float[Tensor, "B V"]:
        """Read what was written: return the logits of the token after these, and extend the state by them."""

    def writing(self) -> AbstractContextManager[None]:
        """Wrap a start and its advances: a model sharded over devices gathers all its weights meanwhile."""
        return nullcontext()


def left_padding(valid: Bool[Tensor, "B L"] | None) -> Int[Tensor, "B 1"] | None:
    """Return how many padding tokens precede each row; None where none do."""
    return None if valid is None or bool(valid.all()) else (~valid).sum(1, keepdim=True)


def select_rows(state: State, rows: Int[Tensor, " N"]) -> None:
    """Makes the state that of these rows of its batch; a row may be taken several times, for beams or samples."""

    def selected(part: object) -> object:
        if isinstance(part, State):
            select_rows(part, rows)
        elif isinstance(part, list):
            return [selected(one) for one in part]
        elif isinstance(part, Tensor):
            return part.index_select(0, rows)
        return part

    for index in fields(state):
        setattr(state, index.name, selected(getattr(state, index.name)))
