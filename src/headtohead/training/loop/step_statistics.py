"""Norms of gradients and updates by layer: the first thing to look at when a run does not learn."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from headtohead.training.parallel.sharding import local, square_norms


def layer_of(name: str) -> str:
    """The layer that a parameter's name lies in: up to its first number, else all but the parameter's own word."""
    words = name.split(".")
    for index, word in enumerate(words[:-1]):
        if word.isdecimal():
            return ".".join(words[: index + 1])
    return ".".join(words[:-1]) or name


class LayerNorms:
    """Euclidean norms over all parameters of each layer of a model."""

    def __init__(self, model: nn.Module) -> None:
        named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
        self._layers = [layer_of(name) for name, _ in named]
        self.parameters = [parameter for _, parameter in named]

    def gradients(self) -> dict[str, float]:
        """Measure the gradients after the backward pass; a parameter without gradient counts as 0."""
        found_gradients = [
            (layer, parameter.grad)
            for layer, parameter in zip(self._layers, self.parameters, strict=True)
            if parameter.grad is not None
        ]
        gradients = [gradient for _, gradient in found_gradients]
        return _norms([layer for layer, _ in found_gradients], [local(gradient) for gradient in gradients], gradients)

    def snapshot(self) -> list[Tensor]:
        """The weights as they are, to measure an update against: of each, what this device holds."""
        return [local(parameter.detach()).clone() for parameter in self.parameters]

    def updates(self, before: Sequence[Tensor]) -> dict[str, float]:
        """Measure how far the weights have moved since the snapshot."""
        now = [local(parameter.detach()) for parameter in self.parameters]
        return _norms(self._layers, list(torch._foreach_sub(now, list(before))), self.parameters)


def _norms(layers: Sequence[str], parts: Sequence[Tensor], like: Sequence[Tensor]) -> dict[str, float]:
    if not parts:
        return {}
    sums: dict[str, float] = {}
    for layer, square in zip(layers, square_norms(parts, like).tolist(), strict=True):
        sums[layer] = sums.get(layer, 0.0) + square
    return {layer: math.sqrt(total) for layer, total in sums.items()}


_FIRST_LOSSES = 64
"""Losses that a window has room for before it grows."""


class LossWindow:
    """Losses that nobody has read yet, on their device; reading moves them to the host."""

    def __init__(self) -> None:
        self._unread: Tensor | None = None
        self._count = 0
        self.losses: list[float] = []
        """Those read so far, oldest first."""

    def add(self, loss: Tensor) -> None:
        if self._unread is None or self._unread.device != loss.device:
            self._unread = torch.zeros(_FIRST_LOSSES, device=loss.device, dtype=torch.float64)
        if self._count == len(self._unread):  # grows with what is there: trainer.log_every may be any number
            self._unread = torch.cat([self._unread, torch.zeros_like(self._unread)])
        self._unread[self._count] = loss
        self._count += 1

    def read(self, sum_over_devices: Callable[[Tensor], Tensor]) -> list[float]:
        """Return all losses of the window, each step's shares of all devices added up."""
        if self._unread is not None and self._count:
            self.losses += sum_over_devices(self._unread[: self._count]).tolist()
            self._count = 0
        return self.losses

    def clear(self) -> None:
        self.losses = []

    def first_bad(self) -> int | None:
        """Return how many steps ago, counted from the last one read, a loss was first not finite."""
        for index, loss in enumerate(self.losses):
            if not math.isfinite(loss):
                return len(self.losses) - 1 - index
        return None
