"""What every brick promises: its inputs, its way of decoding step by step, and its exact costs.

Shape legend, used in names and in signatures of this package:
B batch, L length of the queries, M length of the keys or of a memory, D model width, H heads, G key-value heads,
K width of a head, F inner width of a feed-forward, V vocabulary.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn


@dataclass(frozen=True)
class CostQuery:
    """The circumstances a cost is asked for: one sequence of `length` tokens, attending to `memory_length` others."""

    length: int
    memory_length: int = 0
    bytes_per_element: int = 4


@dataclass(frozen=True)
class Costs:
    """What one component costs for one sequence; one multiply-add is two FLOPs. Costs add up.

    `forward_flops` and `training_flops` hold matrix products and convolutions only, causal-exact; elementwise work
    is counted, not declared. `training_flops` is forward plus backward, without recomputation.
    `activation_bytes` is what autograd keeps for the backward pass of one sequence.
    `state_elements` is what decoding must carry after `length` tokens.
    """

    parameters: int = 0
    active_parameters: int = 0
    forward_flops: int = 0
    training_flops: int = 0
    state_elements: int = 0
    activation_bytes: int = 0

    def __add__(self, other: Costs) -> Costs:
        return Costs(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


class Component(nn.Module, ABC):
    """A module that can say what it costs."""

    @abstractmethod
    def costs(self, query: CostQuery) -> Costs:
        """The costs of this component alone, everything inside it included."""


@dataclass(frozen=True)
class Context:
    """All that a component may know besides its input.

    The stack fills `allowed` and `bias` once per forward pass, and only when one of its mixers reads scores.
    """

    valid: Bool[Tensor, "B L"] | None = None
    """True where a token is real; None means all are."""
    segments: Int[Tensor, "B L"] | None = None
    """Number of the document each token belongs to, for packed rows; None means one document per row."""
    positions: Int[Tensor, "B L"] | None = None
    """Place of each token in its own document; None means 0, 1, 2 ..."""
    memory: Float[Tensor, "B M D"] | None = None
    """What a cross mixer reads."""
    memory_valid: Bool[Tensor, "B M"] | None = None
    encoding: Position | None = None
    """The position encoding in force, for mixers that rotate queries and keys or bias their scores."""
    allowed: Bool[Tensor, "B 1 L M"] | None = None
    """True where a query may look at a key; None means that only the mixer's own causality applies."""
    bias: Float[Tensor, "#B H L M"] | None = None
    """Added to the scores; computed once for all layers where it does not depend on the queries."""

    def with_encoding(self, encoding: Position) -> Context:
        return replace(self, encoding=encoding)


@dataclass
class State:
    """What a mixer carries from one decoding step to the next; every subclass adds its tensors."""

    length: int = 0
    """How many tokens were read so far."""

    def tensors(self) -> Iterator[Tensor]:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Tensor):
                yield value


class Mixer(Component):
    """Mixes information along the sequence: x[B, L, D] -> y[B, L, D]."""

    can_be_causal: ClassVar[bool] = True
    can_be_bidirectional: ClassVar[bool] = True
    reads_scores: ClassVar[bool] = False
    """True for mixers with a query-key score, which alone can be rotated or biased by a position encoding."""

    causal: bool

    @abstractmethod
    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        """The whole sequence at once."""

    @abstractmethod
    def initial_state(self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype) -> State:
        """An empty state with room for `max_length` tokens."""

    @abstractmethod
    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], State]:
        """The next tokens (one, or a prompt of several), given the state of all before; causal mixers only."""


class CrossMixer(Component):
    """Reads a memory: x[B, L, D] with context.memory[B, M, D] -> y[B, L, D]."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        """The whole sequence at once; decoding needs no other form."""


class Position(Component):
    """A position encoding: three places to act, each doing nothing by default."""

    adds_to_tokens: ClassVar[bool] = False
    rotates: ClassVar[bool] = False
    biases_scores: ClassVar[bool] = False
    bias_reads_queries: ClassVar[bool] = False
    """True where the bias must be made anew in every layer from its queries (Shaw)."""
    shared_by_layers: ClassVar[bool] = True
    """False where every layer owns its table."""

    max_length: int | None = None
    """The longest sequence that has positions; None means any."""

    def add(self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "#B L"]) -> Float[Tensor, "B L D"]:
        del positions
        return x

    def rotate(self, x: Float[Tensor, "B H L K"], positions: Int[Tensor, "#B L"]) -> Float[Tensor, "B H L K"]:
        del positions
        return x

    def bias(
        self,
        queries: Float[Tensor, "B H L K"] | None,
        query_positions: Int[Tensor, "#B L"],
        key_positions: Int[Tensor, "#B M"],
    ) -> Float[Tensor, "#B H L M"] | None:
        del queries, query_positions, key_positions
        return None


class Norm(Component):
    """Normalises each token (or, for batch norm, each channel over the valid tokens)."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        """Same shape out as in."""


class FeedForward(Component):
    """Works on every token by itself: x[B, L, D] -> y[B, L, D]."""

    @abstractmethod
    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Same shape out as in."""
