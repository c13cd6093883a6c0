"""Norms of gradients and updates by layer: the first thing to look at when a run does not learn."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from headtohead.training.sharding import local, square_norms


def layer_of(name: str) -> str:
    """The layer that a parameter's name lies in: up to its first number, else all but the parameter's own word."""
    words = name.split(".")
    for place, word in enumerate(words[:-1]):
        if word.isdigit():
            return ".".join(words[: place + 1])
    return ".".join(words[:-1]) or name


class LayerNorms:
    """Euclidean norms over all parameters of each layer of a model."""

    def __init__(self, model: nn.Module) -> None:
        named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
        self._layers = [layer_of(name) for name, _ in named]
        self.parameters = [parameter for _, parameter in named]

    def gradients(self) -> dict[str, float]:
        """What the backward pass left; a parameter without gradient counts as 0."""
        found = [
            (layer, parameter.grad)
            for layer, parameter in zip(self._layers, self.parameters, strict=True)
            if parameter.grad is not None
        ]
        gradients = [gradient for _, gradient in found]
        return _norms([layer for layer, _ in found], [local(gradient) for gradient in gradients], gradients)

    def snapshot(self) -> list[Tensor]:
        """The weights as they are, to measure an update against: of each, what this device holds."""
        return [local(parameter.detach()).clone() for parameter in self.parameters]

    def updates(self, before: Sequence[Tensor]) -> dict[str, float]:
        """How far the weights have moved since the snapshot."""
        now = [local(parameter.detach()) for parameter in self.parameters]
        return _norms(self._layers, list(torch._foreach_sub(now, list(before))), self.parameters)


def _norms(layers: Sequence[str], parts: Sequence[Tensor], like: Sequence[Tensor]) -> dict[str, float]:
    if not parts:
        return {}
    sums: dict[str, float] = {}
    for layer, square in zip(layers, square_norms(parts, like).tolist(), strict=True):
        sums[layer] = sums.get(layer, 0.0) + square
    return {layer: math.sqrt(total) for layer, total in sums.items()}
