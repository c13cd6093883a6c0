"""Architectures that write share this contract: a prompt is read once, then each token costs one step."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.architecture import Architecture
from headtohead.components.component import Context, State
from headtohead.components.stack import StackState


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
