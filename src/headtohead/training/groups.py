"""Which parameters an optimizer treats alike: what decays, and which of them are the hidden matrices of a network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from headtohead.architectures.contracts import Head
from headtohead.components.contracts import Component, Position
from headtohead.components.embeddings import PatchEmbedding, SegmentEmbedding, TokenEmbedding

EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag, TokenEmbedding, SegmentEmbedding)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_ENDS = (Head, PatchEmbedding, Position, *EMBEDDINGS)
"""What meets the data itself: images or tokens come in, logits go out."""


def parameter_groups(model: nn.Module, *, weight_decay: float, decay_embeddings: bool = True) -> list[dict[str, Any]]:
    """Two groups: matrices and convolutions decay; biases, norms, gains, rates and position tables never do.

    `decay_embeddings` says whether tables of tokens and segments decay; one that is tied to the head is such a table.
    """
    spared = {id(parameter) for parameter in _never_decayed(model, decay_embeddings)}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    decayed = [parameter for parameter in trained if id(parameter) not in spared]
    undecayed = [parameter for parameter in trained if id(parameter) in spared]
    groups = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": undecayed, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The weights that map activations to activations: those of linear layers, of convolutions over all channels, and
    the matrices that a component holds itself. Neither tables, gains and biases nor the ends of the network, where
    rows stand for tokens, classes or pixels, are among them."""
    at_an_end = {id(held) for module in model.modules() if isinstance(module, _ENDS) for held in module.parameters()}
    found = {id(weight) for module in model.modules() for weight in _matrices(module)} - at_an_end
    return [parameter for parameter in model.parameters() if id(parameter) in found and parameter.requires_grad]


def _matrices(module: nn.Module) -> Iterator[object]:
    """Matrices of the module itself, as parameters of it; a stack of matrices is none."""
    if isinstance(module, nn.Linear) or (isinstance(module, _CONVOLUTIONS) and module.groups == 1):
        yield module.weight
    elif isinstance(module, Component):
        yield from (weight for weight in module.own_matrices() if weight.ndim == 2)


def _never_decayed(model: nn.Module, decay_embeddings: bool) -> Iterator[Tensor]:
    for module in model.modules():
        if isinstance(module, Position) or (isinstance(module, EMBEDDINGS) and not decay_embeddings):
            yield from module.parameters()
        else:
            yield from (parameter for parameter in module.parameters(recurse=False) if parameter.ndim < 2)
        if isinstance(module, Component):
            yield from module.never_decayed()
