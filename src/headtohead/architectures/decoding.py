"""What architectures that write promise: a prompt is read once, then each token costs one step."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headtohead.architectures.contracts import Architecture
from headtohead.components.contracts import Context, State
from headtohead.components.stack import StackState


@dataclass
class Decoding(State):
    """Where a model stands in the rows that it writes. Every tensor in it has the batch as its first dimension."""

    stack: StackState = field(default_factory=StackState)
    """Of the stack that writes."""
    padding: Int[Tensor, "B 1"] | None = None
    """How many padding tokens stand before each row; None where none do."""
    memory: Float[Tensor, "B S D"] | None = None
    """What a source was read as, where there is one."""
    memory_valid: Bool[Tensor, "B S"] | None = None

    def context(self, num_tokens: int, valid: Bool[Tensor, "B L"] | None = None) -> Context:
        """What the stack is told of so many next tokens: a row's places count from its first real token."""
        positions = None
        if self.padding is not None:
            start = self.stack.length
            places = torch.arange(start, start + num_tokens, device=self.padding.device)
            positions = (places - self.padding).clamp_(min=0)
        return Context(valid=valid, positions=positions, memory=self.memory, memory_valid=self.memory_valid)


class Decodes(Architecture):
    """An architecture that writes one token after another, in time that does not grow with what it read (but for
    attention to it)."""

    reads_source: ClassVar[bool] = False
    """True where the prompt is a source of its own, padded on the right, and writing begins with a start token; False
    where writing goes on with the prompt, which is padded on the left."""

    @property
    @abstractmethod
    def longest_written(self) -> int | None:
        """The most tokens that a row can have on the side that writes, the prompt (or the start token) included."""

    @abstractmethod
    def start(
        self, tokens: Int[Tensor, "B L"], valid: Bool[Tensor, "B L"] | None, *, room: int, bos_id: int
    ) -> tuple[Float[Tensor, "B V"], Decoding]:
        """Reads prompts: the logits of the first token to be written, and a state with room for `room` tokens."""

    @abstractmethod
    def advance(self, tokens: Int[Tensor, "B L"], state: Decoding) -> Float[Tensor, "B V"]:
        """Reads what was written: the logits of the token after these. The state goes on to hold them."""

    def writing(self) -> AbstractContextManager[None]:
        """Entered around a start and its advances: a model spread over devices holds all its weights meanwhile."""
        return nullcontext()


def left_padding(valid: Bool[Tensor, "B L"] | None) -> Int[Tensor, "B 1"] | None:
    """How many padding tokens stand before each row; None where none do."""
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

    for place in fields(state):
        setattr(state, place.name, selected(getattr(state, place.name)))
