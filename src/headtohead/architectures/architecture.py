"""Every architecture declares its features, a head, and a ledger of costs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.component import Component
from headtohead.components.costs import CostQuery, Costs
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

    def query(self, length: int, memory_length: int = 0) -> CostQuery:
        """Return the cost query of a component that reads so many tokens."""
        return CostQuery(length, memory_length, self.bytes_per_element, device=self.device)


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

    @abstractmethod
    def forward(self, features: Tensor, valid: Tensor | None = None, token_types: Tensor | None = None) -> Tensor:
        """Return logits: [B, L, V] of a language-model head, [B, classes] of a classifier."""

    @abstractmethod
    def cost_rows(self, query: CostQuery) -> Iterator[tuple[str, str, Costs]]:
        """Yield path, kind and costs of every part; their sum is the head."""

    def costs(self, query: CostQuery) -> Costs:
        return sum((costs for _, _, costs in self.cost_rows(query)), Costs())

    def query(self, size: InputSize, length: int) -> CostQuery:
        """Return the cost query of this head over that many features of a sample."""
        num_rows = length if self.needs_all_logits or size.scored is None else size.scored
        return size.query(num_rows)


class Architecture(nn.Module, ABC):
    """Components wired into a model. Keyword tensors in, logits out; the names are those of Batch.inputs()."""

    family: ClassVar[str]
    no_mup_rule: ClassVar[str] = "no rule for it is known"
    """The reason, as for a component, of the parts besides blocks and head."""
    needs_real_device: ClassVar[bool] = False
    """Whether it has to be built on a real device, because a module may not support the meta device."""
    trained_by_steps: ClassVar[bool] = True
    """Whether it trains by steps; a model that does not learns from all rows at once, whatever trainer.max_steps is."""
    head: Head

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
