"""The optimizers, with parameter groups: what is multiplied with activations decays, the rest does not.

AdamW: Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import Parameter, signature
from typing import get_args

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from headtohead.architectures.architecture import Head
from headtohead.components.component import Component, Position
from headtohead.components.embeddings import PatchEmbedding, SegmentEmbedding, TokenEmbedding
from headtohead.errors import UsageError
from headtohead.ranges import Count, NotNegative, Positive, Probability, ShareLeavingSome
from headtohead.training.optim.elementwise_optimizers import AdEMAMix, Group, Lion
from headtohead.training.optim.muon import Muon, Scale
from headtohead.training.optim.schedule_free import ScheduleFree
from headtohead.training.optim.soap import Soap

EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag, TokenEmbedding, SegmentEmbedding)


_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


_ENDS = (Head, PatchEmbedding, Position, *EMBEDDINGS)
"""The modules that meet the data itself: images or tokens come in, logits go out."""


def parameter_groups(model: nn.Module, *, weight_decay: float, decay_embeddings: bool = True) -> list[Group]:
    """Return two groups: matrices and convolutions decay; biases, norms, gains, rates and position tables never do.

    `decay_embeddings` says whether tables of tokens and segments decay; one that is tied to the head is such a table.
    """
    spared = {id(parameter) for parameter in _without_weight_decay(model, decay_embeddings)}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    decayed = [parameter for parameter in trained if id(parameter) not in spared]
    undecayed = [parameter for parameter in trained if id(parameter) in spared]
    groups = [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": undecayed, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """Return the weights that map activations to activations: those of linear layers, of convolutions over all
    channels, and the matrices that a component holds itself. Neither tables, gains and biases nor the ends of the
    network, where rows stand for tokens, classes or pixels, are among them."""
    at_an_end = {
        id(weight) for module in model.modules() if isinstance(module, _ENDS) for weight in module.parameters()
    }
    hidden = {id(weight) for module in model.modules() for weight in _matrices(module)} - at_an_end
    return [parameter for parameter in model.parameters() if id(parameter) in hidden and parameter.requires_grad]


def _matrices(module: nn.Module) -> Iterator[object]:
    """Matrices of the module itself, as parameters of it; a stack of matrices is none."""
    if isinstance(module, nn.Linear) or (isinstance(module, _CONVOLUTIONS) and module.groups == 1):
        yield module.weight
    elif isinstance(module, Component):
        yield from (weight for weight in module.own_matrices() if weight.ndim == 2)


def _without_weight_decay(model: nn.Module, decay_embeddings: bool) -> Iterator[Tensor]:
    for module in model.modules():
        if isinstance(module, Position) or (isinstance(module, EMBEDDINGS) and not decay_embeddings):
            yield from module.parameters()
        else:
            yield from (parameter for parameter in module.parameters(recurse=False) if parameter.ndim < 2)
        if isinstance(module, Component):
            yield from module.no_weight_decay()


_FUSED_DEVICES = ("cpu", "cuda")


def adamw(
    model: nn.Module,
    *,
    lr: NotNegative = 1e-3,
    betas: tuple[Probability, Probability] = (0.9, 0.95),
    eps: Positive = 1e-8,
    weight_decay: NotNegative = 0.1,
    decay_embeddings: bool = True,
    fused: bool | None = None,
) -> Optimizer:
    """Adam with decoupled weight decay; `fused` None takes torch's fused kernel where there is one."""
    groups = parameter_groups(model, weight_decay=weight_decay, decay_embeddings=decay_embeddings)
    return torch.optim.AdamW(groups, lr=lr, betas=_pair(betas), eps=eps, fused=_fused(model, fused))


def adam(
    model: nn.Module,
    *,
    lr: NotNegative = 1e-3,
    betas: tuple[Probability, Probability] = (0.9, 0.999),
    eps: Positive = 1e-8,
    weight_decay: NotNegative = 0.0,
    decay_embeddings: bool = True,
    fused: bool | None = None,
) -> Optimizer:
    """Adam (Kingma and Ba 2015, https://arxiv.org/abs/1412.6980); its weight decay is an L2 term in the gradient."""
    groups = parameter_groups(model, weight_decay=weight_decay, decay_embeddings=decay_embeddings)
    return torch.optim.Adam(groups, lr=lr, betas=_pair(betas), eps=eps, fused=_fused(model, fused))


def ademamix(
    model: nn.Module,
    *,
    lr: NotNegative = 1e-3,
    betas: tuple[Probability, Probability] = (0.9, 0.999),
    slow_beta: Probability = 0.9999,
    slow_weight: NotNegative = 5.0,
    ramp: Count | None = None,
    eps: Positive = 1e-8,
    weight_decay: NotNegative = 0.1,
    decay_embeddings: bool = True,
) -> Optimizer:
    """Build AdEMAMix: AdamW with a second, slow momentum, whose weight and beta grow over `ramp` steps (None: never
    grow, so that they are whole from the start)."""
    groups = parameter_groups(model, weight_decay=weight_decay, decay_embeddings=decay_embeddings)
    return AdEMAMix(groups, lr=lr, betas=_pair(betas), slow_beta=slow_beta, slow_weight=slow_weight, ramp=ramp, eps=eps)


def sgd(
    model: nn.Module,
    *,
    lr: NotNegative = 0.1,
    momentum: Probability = 0.9,
    nesterov: bool = False,
    weight_decay: NotNegative = 0.0,
    decay_embeddings: bool = True,
    fused: bool | None = None,
) -> Optimizer:
    """Stochastic gradient descent with momentum."""
    groups = parameter_groups(model, weight_decay=weight_decay, decay_embeddings=decay_embeddings)
    return torch.optim.SGD(groups, lr=lr, momentum=momentum, nesterov=nesterov, fused=_fused(model, fused))


def lion(
    model: nn.Module,
    *,
    lr: NotNegative = 2e-4,
    betas: tuple[Probability, Probability] = (0.9, 0.99),
    weight_decay: NotNegative = 0.5,
    decay_embeddings: bool = True,
) -> Optimizer:
    """Build Lion, which steps by the sign of a momentum; a good lr is 3 to 10 times below AdamW's, and a good decay as
    much above."""
    groups = parameter_groups(model, weight_decay=weight_decay, decay_embeddings=decay_embeddings)
    return Lion(groups, lr=lr, betas=_pair(betas))


def muon(
    model: nn.Module,
    *,
    lr: NotNegative = 1e-3,
    momentum: Probability = 0.95,
    nesterov: bool = True,
    num_iterations: Count = 5,
    scale: Scale = "match_adamw",
    adamw_lr: NotNegative | None = None,
    betas: tuple[Probability, Probability] = (0.9, 0.95),
    eps: Positive = 1e-8,
    weight_decay: NotNegative = 0.1,
    decay_embeddings: bool = True,
) -> Optimizer:
    """Orthogonalised momentum for hidden matrices, AdamW for the rest, at `adamw_lr` (None: at lr too)."""
    if scale not in get_args(Scale):
        raise UsageError(f"optimizer.scale={scale} is unknown: choose {' or '.join(get_args(Scale))}")
    hidden = {id(matrix) for matrix in hidden_matrices(model)}
    groups = []
    for group in parameter_groups(model, weight_decay=weight_decay, decay_embeddings=decay_embeddings):
        matrices = [parameter for parameter in group["params"] if id(parameter) in hidden]
        rest = [parameter for parameter in group["params"] if id(parameter) not in hidden]
        groups += [
            {**group, "params": matrices, "orthogonal": True},
            {**group, "params": rest, "lr": lr if adamw_lr is None else adamw_lr},
        ]
    return Muon(
        [group for group in groups if group["params"]],
        lr=lr,
        momentum=momentum,
        nesterov=nesterov,
        num_iterations=num_iterations,
        scale=scale,
        betas=_pair(betas),
        eps=eps,
    )


def soap(
    model: nn.Module,
    *,
    lr: NotNegative = 3e-3,
    betas: tuple[Probability, Probability] = (0.95, 0.95),
    basis_every: Count = 10,
    max_basis: Count = 10000,
    eps: Positive = 1e-8,
    weight_decay: NotNegative = 0.01,
    decay_embeddings: bool = True,
) -> Optimizer:
    """Build SOAP: Adam in the eigenbasis of Shampoo, which turns every `basis_every` steps; dimensions longer than
    `max_basis`, such as a large vocabulary, have none."""
    groups = parameter_groups(model, weight_decay=weight_decay, decay_embeddings=decay_embeddings)
    return Soap(groups, lr=lr, betas=_pair(betas), basis_every=basis_every, max_basis=max_basis, eps=eps)


def schedule_free(
    model: nn.Module,
    *,
    lr: NotNegative = 2.5e-3,
    betas: tuple[ShareLeavingSome, Probability] = (0.9, 0.999),
    eps: Positive = 1e-8,
    weight_decay: NotNegative = 0.1,
    decay_embeddings: bool = True,
) -> Optimizer:
    """Build schedule-free AdamW, whose average of the weights is evaluated; the warm-up is the schedule's."""
    groups = parameter_groups(model, weight_decay=weight_decay, decay_embeddings=decay_embeddings)
    return ScheduleFree(groups, lr=lr, betas=_pair(betas), eps=eps)


def checked_optimizer(optimizer: object) -> Optimizer:
    """Return the optimizer; refuse one whose steps training cannot take, as somebody's own may be."""
    name = type(optimizer).__name__
    if not isinstance(optimizer, Optimizer):
        raise UsageError(f"optimizer: {name} is not a torch.optim.Optimizer: return one over the model's parameters")
    if any("lr" not in group for group in optimizer.param_groups):
        raise UsageError(
            f"optimizer: {name} has groups of parameters without lr, which the schedule sets before each step: give it "
            'defaults with an "lr", and multiply its steps by group["lr"]'
        )
    closure = signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is Parameter.empty:
        raise UsageError(
            f"optimizer: {name}.step needs a closure, which computes the loss several times in a step, and a step of "
            "training computes it once: choose one that steps from gradients alone, such as adamw, muon or sgd"
        )
    return optimizer


def _fused(model: nn.Module, choice: bool | None) -> bool:
    if choice is not None:
        return choice
    return all(
        parameter.device.type in _FUSED_DEVICES and parameter.is_floating_point() for parameter in model.parameters()
    )


def _pair(betas: tuple[float, float]) -> tuple[float, float]:
    """A YAML gives a list, and torch compares with tuples."""
    first, second = betas
    return float(first), float(second)
