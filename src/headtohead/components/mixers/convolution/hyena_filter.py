"""Hyena's filter: a small network of the distance, with sines for activations, times a window that fades at each
channel's own pace (Poli et al. 2023, https://arxiv.org/abs/2302.10866), so that it is as long as the sequence.

F features of a distance, W inner width of the network.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.components.component import Component
from headtohead.components.costs import CostContext, Costs
from headtohead.errors import UsageError

WINDOW_LEFT = 1e-2
"""The share of a filter that the window leaves ..."""
FASTEST, SLOWEST = 0.3, 1.5
"""... at these shares of the reach, in the channel that fades fastest and in the one that fades slowest."""


class FilterLayer(Component):
    """sin(frequency * (W x + b)), or W x without sines; drawn as a network of sines needs it, whatever the model's
    initialisation."""

    float32_parameters = ("weight", "bias", "frequency")

    def __init__(self, num_inputs: int, num_outputs: int, *, frequency: float | None) -> None:
        super().__init__()
        self.start = frequency
        self.weight = nn.Parameter(torch.empty(num_outputs, num_inputs))
        self.bias = nn.Parameter(torch.empty(num_outputs)) if frequency is not None else None
        self.frequency = nn.Parameter(torch.empty(num_outputs)) if frequency is not None else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = self.weight.shape[1] ** -0.5
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None and self.frequency is not None and self.start is not None:
            nn.init.uniform_(self.bias, -bound, bound)
            nn.init.constant_(self.frequency, self.start)

    def forward(self, x: Float[Tensor, "L F"]) -> Float[Tensor, "L W"]:
        y = F.linear(x, self.weight, self.bias)
        return y if self.frequency is None else torch.sin(self.frequency * y)

    def costs(self, query: CostContext) -> Costs:
        num_outputs, num_inputs = self.weight.shape
        saved = num_inputs + (0 if self.frequency is None else 2 * num_outputs)
        return Costs.of(
            self,
            forward_flops=2 * query.length * num_outputs * num_inputs,
            activation_bytes=query.length * saved * query.bytes_per_element,
        )


class ImplicitFilter(Component):
    """The response at distances 0, 1, 2 ... for every channel, to each of `num_sides`.

    `reach` is the distance that features and windows scale to one; nothing ends there.
    """

    def __init__(
        self, d_model: int, *, num_sides: int, reach: int, width: int, depth: int, bands: int, frequency: float
    ) -> None:
        super().__init__()
        if min(reach, width, depth, bands) < 1:
            raise UsageError(
                f"reach={reach}, filter_width={width}, filter_depth={depth}, bands={bands}: each must be 1 or more"
            )
        self.d_model, self.num_sides, self.reach, self.bands = d_model, num_sides, reach, bands
        widths = [1 + 2 * bands] + depth * [width]
        self.hidden = nn.ModuleList(
            FilterLayer(before, after, frequency=frequency) for before, after in pairwise(widths)
        )
        self.last = FilterLayer(width, num_sides * d_model, frequency=None)

    def forward(self, length: int) -> Float[Tensor, "L N D"]:
        position = torch.arange(length, device=self.last.weight.device, dtype=self.last.weight.dtype) / self.reach
        h = self.features(position)
        for layer in self.hidden:
            h = layer(h)
        y: Tensor = self.last(h).unflatten(-1, (self.num_sides, self.d_model)) * self.window(position)
        return y

    def features(self, position: Float[Tensor, " L"]) -> Float[Tensor, "L F"]:
        """Return the distance, and its sines and cosines of 1, 2, 3 ... turns over the reach."""
        turns = torch.arange(1, self.bands + 1, device=position.device, dtype=position.dtype)
        angles = 2 * math.pi * turns * position[:, None]
        return torch.cat((position[:, None], angles.sin(), angles.cos()), dim=-1)

    def window(self, position: Float[Tensor, " L"]) -> Float[Tensor, "L 1 D"]:
        slow, fast = (-math.log(WINDOW_LEFT) / share for share in (SLOWEST, FASTEST))
        pace = torch.linspace(slow, fast, self.d_model, device=position.device, dtype=position.dtype)
        return (-pace * position[:, None]).exp()[:, None]

    def costs(self, query: CostContext) -> Costs:
        """Return the costs for any number of sequences together; the features need no gradient."""
        layers: list[FilterLayer] = [*self.hidden, self.last]
        inside = sum((layer.costs(query) for layer in layers), Costs())
        first = layers[0].costs(query).forward_flops
        return Costs(
            inside.parameters,
            inside.active_parameters,
            inside.forward_flops,
            inside.training_flops - first,
            activation_bytes=inside.activation_bytes + query.length * self.d_model * query.bytes_per_element,
        )
