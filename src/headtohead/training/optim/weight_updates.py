"""Changes of weights after an update: matrices whose vectors keep length 1 while they are trained (nGPT, Loshchilov et
al. 2024, https://arxiv.org/abs/2410.01131), and the exponential moving average of the weights, steadier than the last
ones (Polyak and Juditsky 1992, https://doi.org/10.1137/0330046)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from headtohead.architectures.vocabulary_heads import VocabularyHead
from headtohead.components.embeddings import ClassToken, SegmentEmbedding, TokenEmbedding
from headtohead.components.linear_maps import InputLinear, ResidualLinear
from headtohead.components.positions.absolute import Learned
from headtohead.components.stack import Stack
from headtohead.components.streams import Sphere
from headtohead.errors import UsageError

_ROWS, _COLUMNS = -1, 0
"""The dimension along which the stream lies: maps read it by the rows of their weights, and write it by the columns."""
_SMALLEST = 1e-12
"""The length below which a vector is not divided by its own."""
_VECTORS = (TokenEmbedding, SegmentEmbedding, ClassToken, VocabularyHead)
"""The modules whose weight holds vectors of the stream."""


class UnitWeights:
    """The weights that read or write a stream on a sphere, if its wiring wants them at length 1."""

    def __init__(self, model: nn.Module) -> None:
        self.weights = list(_unit_weights(model))

    @torch.no_grad()
    def normalise(self) -> None:
        """Divide every vector by its length, which an optimizer step has changed."""
        for weight, along in self.weights:
            weight.div_(torch.linalg.vector_norm(weight, dim=along, keepdim=True).clamp_min(_SMALLEST))


def _unit_weights(model: nn.Module) -> Iterator[tuple[Tensor, int]]:
    """Yield each trained weight once, with the dimension along which the stream lies."""
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    on_spheres = [stack for stack in stacks if _on_a_sphere(stack)]
    if not on_spheres:
        return
    inside = {id(module) for stack in stacks for module in stack.modules()}
    ends = [module for module in model.modules() if id(module) not in inside]
    seen: set[int] = set()
    for module in (*ends, *(module for stack in on_spheres for module in stack.modules())):
        for weight, along in _of_stream(module, on_spheres[0].d_model):
            if weight.requires_grad and id(weight) not in seen:
                seen.add(id(weight))
                yield weight, along


def _on_a_sphere(stack: Stack) -> bool:
    return any(isinstance(module, Sphere) and module.unit_weights for module in stack.modules())


def _of_stream(module: nn.Module, d_model: int) -> Iterator[tuple[Tensor, int]]:
    """Yield the weight of a module that begins or ends at the stream: of tables, heads and linear maps."""
    if isinstance(module, _VECTORS):
        yield module.weight, _ROWS
    elif isinstance(module, Learned):
        yield module.table.weight, _ROWS
    elif isinstance(module, ResidualLinear | InputLinear):
        if module.out_features == d_model:  # not before a gate halves them
            yield module.weight, _COLUMNS
    elif isinstance(module, nn.Linear) and module.in_features == d_model:
        yield module.weight, _ROWS


class EvaluatedWeights(ABC):
    """Weights that are evaluated, saved as the best and drawn in place of those that are trained."""

    @abstractmethod
    def update(self, step: int) -> None:
        """Take in the weights after a step."""

    @abstractmethod
    def swap(self) -> None:
        """Give the model the weights to evaluate, and by the next call those that it trains."""

    @abstractmethod
    def state(self) -> list[Tensor]:
        """Return what a checkpoint has to hold beside the trained weights and the optimizer."""

    @abstractmethod
    def load(self, average: list[Tensor]) -> None:
        """Take back such a state."""

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model holds the weights to evaluate inside."""
        self.swap()
        try:
            yield
        finally:
            self.swap()


class WeightAverage(EvaluatedWeights):
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

    def swap(self) -> None:
        """Swap the average and the model's weights without copying anything."""
        for parameter, average in zip(self._parameters, self._average, strict=True):
            parameter.data, average.data = average.data, parameter.data

    def state(self) -> list[Tensor]:
        return self._average

    def load(self, average: list[Tensor]) -> None:
        torch._foreach_copy_(self._average, average)
