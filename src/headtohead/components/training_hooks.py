"""These contracts are for parts that training must call: a loss of their own, or a change with each optimizer step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Literal, Protocol

import torch
from jaxtyping import Int
from torch import Tensor, nn

from headtohead.components.component import Component

Balance = Literal["batch", "micro_batch"]
"""The tokens over which a part takes statistics: all of an optimizer step, or those that one device reads at once."""


class Devices(Protocol):
    """The devices that share a batch, each reading neighbouring rows."""

    @property
    def rank(self) -> int:
        """Return the number of this device, in the order of the rows."""

    def gathered(self, counts: Tensor) -> Tensor:
        """Return the counts of all devices in their order, along a new first dimension."""


class OneDevice:
    """A device that reads the whole batch."""

    rank = 0

    def gathered(self, counts: Int[Tensor, "..."]) -> Int[Tensor, "1 ..."]:
        return counts[None]


class HasAuxiliaryLoss(Component):
    """A part whose training pass leaves a loss behind, weighted as it is to count."""

    balance: Balance = "batch"
    devices: Devices = OneDevice()
    """Those that share a batch, set before training."""

    @property
    @abstractmethod
    def takes_statistics(self) -> bool:
        """Return whether its output or its loss depends on which tokens are read together."""

    @abstractmethod
    def take_loss(self) -> Tensor | None:
        """Return the loss of the last forward pass in training, once; None where there is none. With balance=batch it
        is this device's part of a sum over devices, else that of the pass by itself."""

    @abstractmethod
    def take_figures(self) -> dict[str, float]:
        """Return what there is to log of all training passes since the last call."""


def parts_with_losses(model: nn.Module) -> Iterator[tuple[str, HasAuxiliaryLoss]]:
    """Yield all parts with an auxiliary loss, by name."""
    for name, part in model.named_modules():
        if isinstance(part, HasAuxiliaryLoss):
            yield name, part


# Parts that change from one optimizer step to the next, however many passes a step takes.


class ChangesWithSteps(Component):
    """A part that is notified of every optimizer step before its first pass."""

    @abstractmethod
    def begin_step(self, step: int, generator: torch.Generator) -> None:
        """Make ready for a step, counted from 0; the generator is one of the processor, alike on all devices."""


def parts_with_steps(model: nn.Module) -> Iterator[ChangesWithSteps]:
    """Return all parts that change with steps, in their order."""
    return (part for part in model.modules() if isinstance(part, ChangesWithSteps))
