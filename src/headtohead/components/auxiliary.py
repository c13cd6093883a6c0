"""Parts that ask for a loss of their own besides the task's, and have figures to tell of training."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Literal, Protocol

from jaxtyping import Int
from torch import Tensor, nn

from headtohead.components.contracts import Component

Balance = Literal["batch", "micro_batch"]
"""Over what tokens a part takes statistics: all of an optimizer step, or those that one device reads at once."""


class Devices(Protocol):
    """The devices that share a batch, each reading neighbouring rows."""

    @property
    def rank(self) -> int:
        """The number of this one, in the order of the rows."""

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
        """Whether its output or its loss depends on which tokens are read together."""

    @abstractmethod
    def take_loss(self) -> Tensor | None:
        """That of the last forward pass in training, handed out once; None where there is none. With balance=batch it
        is this device's part of a sum over devices, else that of the pass by itself."""

    @abstractmethod
    def take_figures(self) -> dict[str, float]:
        """What there is to log of all training passes since the last time it was asked."""


def parts_with_losses(model: nn.Module) -> Iterator[tuple[str, HasAuxiliaryLoss]]:
    """All such parts, by name."""
    for name, part in model.named_modules():
        if isinstance(part, HasAuxiliaryLoss):
            yield name, part
