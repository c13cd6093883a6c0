"""Matrices whose vectors keep length 1 while they are trained (nGPT, Loshchilov et al. 2024,
https://arxiv.org/abs/2410.01131)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from headtohead.architectures.vocabulary_heads import VocabularyHead
from headtohead.components.embeddings import SegmentEmbedding, TokenEmbedding
from headtohead.components.linear_maps import ResidualLinear
from headtohead.components.stack import Stack
from headtohead.components.streams import Sphere

_ROWS, _COLUMNS = 1, 0
"""The dimension along which the stream lies: maps read it by the rows of their weights, and write it by the columns."""
_SMALLEST = 1e-12
"""The length below which a vector is not divided by its own."""


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
    stacks = [module for module in model.modules() if isinstance(module, Stack) and _on_a_sphere(module)]
    ends = [module for module in model.modules() if isinstance(module, _ENDS)] if stacks else []
    seen: set[int] = set()
    for weight, along in (*((end.weight, _ROWS) for end in ends), *(pair for stack in stacks for pair in _maps(stack))):
        if weight.requires_grad and id(weight) not in seen:
            seen.add(id(weight))
            yield weight, along


_ENDS = (TokenEmbedding, SegmentEmbedding, VocabularyHead)


def _on_a_sphere(stack: Stack) -> bool:
    return any(isinstance(module, Sphere) and module.unit_weights for module in stack.modules())


def _maps(stack: Stack) -> Iterator[tuple[Tensor, int]]:
    """Yield the weights of the linear maps in the blocks that begin or end at the stream."""
    for module in stack.modules():
        if isinstance(module, ResidualLinear):
            yield module.weight, _COLUMNS
        elif isinstance(module, nn.Linear) and module.in_features == stack.d_model:
            yield module.weight, _ROWS
