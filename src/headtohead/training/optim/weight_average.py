"""Exponential moving average of the weights (Polyak and Juditsky 1992, https://doi.org/10.1137/0330046): steadier than
the last ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from headtohead.errors import UsageError


class WeightAverage:
    """average <- decay * average + (1 - decay) * weights after every step; buffers are not averaged.

    Early on the decay is min(decay, (1 + t) / (10 + t)), so that the start of the run is soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        if not 0 < decay < 1:
            raise UsageError(f"trainer.weight_averaging={decay}: give a decay between 0 and 1, such as 0.999")
        self.decay = decay
        self._parameters: list[Tensor] = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self._average = [parameter.detach().clone() for parameter in self._parameters]

    @torch.no_grad()
    def update(self, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self._average, self._parameters, 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model holds its average inside."""
        self.swap()
        try:
            yield
        finally:
            self.swap()

    def swap(self) -> None:
        """Swap the average and the model's weights without copying anything."""
        for parameter, average in zip(self._parameters, self._average, strict=True):
            parameter.data, average.data = average.data, parameter.data

    def state(self) -> list[Tensor]:
        return self._average

    def load(self, average: list[Tensor]) -> None:
        torch._foreach_copy_(self._average, average)
