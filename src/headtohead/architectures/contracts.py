"""What every architecture promises: features, a head, and a ledger of costs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.contracts import Component, Costs


@dataclass(frozen=True)
class InputSize:
    """The size of one sample, which costs are asked for."""

    length: int = 0
    """Tokens read by the encoder or decoder; for images, the model's own patches count instead."""
    decoder_length: int = 0
    bytes_per_element: int = 4


@dataclass(frozen=True)
class CostRow:
    """One line of the ledger: a component's path in the model, what it is, and what it costs per sample."""

    path: str
    kind: str
    """embedding, position, mixer, cross, feedforward, norm, head ..."""
    costs: Costs


class Head(Component):
    """Turns features into logits."""

    @abstractmethod
    def forward(self, features: Tensor, valid: Tensor | None = None) -> Tensor:
        """Logits: [B, L, V] of a language-model head, [B, classes] of a classifier."""


class Architecture(nn.Module, ABC):
    """Components wired into a model. Keyword tensors in, logits out; the names are those of Batch.inputs()."""

    family: ClassVar[str]
    head: Head

    @abstractmethod
    def features(self, **inputs: Tensor) -> Float[Tensor, "B L D"]:
        """Everything before the head."""

    @abstractmethod
    def forward(self, *args: Tensor, **inputs: Tensor) -> Tensor:
        """The head of the features. The first positional argument is tokens (or images)."""

    @abstractmethod
    def cost_rows(self, size: InputSize) -> Iterator[CostRow]:
        """The ledger, component by component; its sum is the model."""

    @abstractmethod
    def example_inputs(self, size: InputSize, batch_size: int, device: torch.device) -> dict[str, Tensor]:
        """Inputs of the right shape and kind, for inspection and benchmarks."""
