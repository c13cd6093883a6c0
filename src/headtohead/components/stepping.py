"""Parts that change from one optimizer step to the next, however many passes a step takes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import torch
from torch import nn

from headtohead.components.contracts import Component


class ChangesWithSteps(Component):
    """A part that is told of every optimizer step before its first pass."""

    @abstractmethod
    def begin_step(self, step: int, generator: torch.Generator) -> None:
        """Make ready for a step, counted from 0; the generator is one of the processor, alike on all devices."""


def parts_with_steps(model: nn.Module) -> Iterator[ChangesWithSteps]:
    """All such parts, in their order."""
    return (part for part in model.modules() if isinstance(part, ChangesWithSteps))
