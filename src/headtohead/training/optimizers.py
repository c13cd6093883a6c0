"""AdamW, Adam and SGD with parameter groups: what is multiplied with activations decays, the rest does not.

AdamW: Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from headtohead.components.contracts import Position
from headtohead.components.embeddings import SegmentEmbedding, TokenEmbedding

EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag, TokenEmbedding, SegmentEmbedding)
_FUSED_DEVICES = ("cpu", "cuda")


def adamw(
    model: nn.Module,
    *,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.95),
    eps: float = 1e-8,
    weight_decay: float = 0.1,
    decay_embeddings: bool = True,
    fused: bool | None = None,
) -> Optimizer:
    """Adam with decoupled weight decay; `fused` None takes torch's fused kernel where there is one."""
    groups = parameter_groups(model, weight_decay=weight_decay, decay_embeddings=decay_embeddings)
    return torch.optim.AdamW(groups, lr=lr, betas=_pair(betas), eps=eps, fused=_fused(model, fused))


def adam(
    model: nn.Module,
    *,
    lr: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decay_embeddings: bool = True,
    fused: bool | None = None,
) -> Optimizer:
    """Adam (Kingma and Ba 2015, https://arxiv.org/abs/1412.6980); its weight decay is an L2 term in the gradient."""
    groups = parameter_groups(model, weight_decay=weight_decay, decay_embeddings=decay_embeddings)
    return torch.optim.Adam(groups, lr=lr, betas=_pair(betas), eps=eps, fused=_fused(model, fused))


def sgd(
    model: nn.Module,
    *,
    lr: float = 0.1,
    momentum: float = 0.9,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    decay_embeddings: bool = True,
    fused: bool | None = None,
) -> Optimizer:
    """Stochastic gradient descent with momentum."""
    groups = parameter_groups(model, weight_decay=weight_decay, decay_embeddings=decay_embeddings)
    return torch.optim.SGD(groups, lr=lr, momentum=momentum, nesterov=nesterov, fused=_fused(model, fused))


def parameter_groups(model: nn.Module, *, weight_decay: float, decay_embeddings: bool = True) -> list[dict[str, Any]]:
    """Two groups: matrices and convolutions decay; biases, norms, gains and position tables never do.

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


def _never_decayed(model: nn.Module, decay_embeddings: bool) -> Iterator[nn.Parameter]:
    for module in model.modules():
        if isinstance(module, Position) or (isinstance(module, EMBEDDINGS) and not decay_embeddings):
            yield from module.parameters()
        else:
            yield from (parameter for parameter in module.parameters(recurse=False) if parameter.ndim < 2)


def _fused(model: nn.Module, wanted: bool | None) -> bool:
    if wanted is not None:
        return wanted
    return all(
        parameter.device.type in _FUSED_DEVICES and parameter.is_floating_point() for parameter in model.parameters()
    )


def _pair(betas: tuple[float, float]) -> tuple[float, float]:
    """A YAML gives a list, and torch compares with tuples."""
    first, second = betas
    return float(first), float(second)
