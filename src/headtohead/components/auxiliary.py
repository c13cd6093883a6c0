"""Parts that ask for a loss of their own besides the task's, and have figures to tell of training."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from torch import Tensor, nn

from headtohead.components.contracts import Component


class HasAuxiliaryLoss(Component):
    """A part whose training pass leaves a loss behind, weighted as it is to count."""

    @abstractmethod
    def take_loss(self) -> Tensor | None:
        """That of the last forward pass in training, handed out once; None where there is none."""

    @abstractmethod
    def take_figures(self) -> dict[str, float]:
        """What there is to log of all training passes since the last time it was asked."""


def parts_with_losses(model: nn.Module) -> Iterator[tuple[str, HasAuxiliaryLoss]]:
    """All such parts, by name."""
    for name, part in model.named_modules():
        if isinstance(part, HasAuxiliaryLoss):
            yield name, part
