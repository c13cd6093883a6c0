"""Matrices whose vectors keep length 1 while they are trained (nGPT, Loshchilov et al. 2024,
https://arxiv.org/abs/2410.01131)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from headtohead.architectures.vocabulary_heads import VocabularyHead
from headtohead.components.embeddings import ClassToken, SegmentEmbedding, TokenEmbedding
from headtohead.components.linear_maps import InputLinear, ResidualLinear
from headtohead.components.positions.absolute import Learned
from headtohead.components.stack import Stack
from headtohead.components.streams import Sphere

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
