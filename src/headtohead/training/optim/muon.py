"""Muon: the momentum of a matrix, orthogonalised, so that an update moves all directions alike (Jordan 2024,
https://kellerjordan.github.io/posts/muon/); everything that is not a hidden matrix takes the steps of AdamW."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.adamw import adamw

from headtohead.components.precision import at_least_float32
from headtohead.training.optim.elementwise_optimizers import Group, with_gradients
from headtohead.training.parallel.sharding import as_part, divided, gathered, local

Scale = Literal["match_adamw", "original"]
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""The coefficients of the quintic: steep at 0, so that small singular values grow fast; large ones come to lie around
1."""
_EPSILON = 1e-7


class Muon(Optimizer):
    """Groups with `orthogonal: True` hold matrices; the others hold whatever else there is."""

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float,
        momentum: float = 0.95,
        nesterov: bool = True,
        num_iterations: int = 5,
        scale: Scale = "match_adamw",
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {
            "lr": lr,
            "orthogonal": False,
            "momentum": momentum,
            "nesterov": nesterov,
            "num_iterations": num_iterations,
            "scale": scale,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            weights, gradients = with_gradients(group["params"])
            if weights and group["orthogonal"]:
                self._orthogonal_step(weights, gradients, group)
            elif weights:
                adamw_step(self, weights, gradients, group)
        return loss

    def _orthogonal_step(self, weights: list[Tensor], gradients: list[Tensor], group: Group) -> None:
        lr, momentum = group["lr"], group["momentum"]
        momenta = [local(self._momentum(weight)) for weight in weights]
        gradients = [local(gradient) for gradient in gradients]
        torch._foreach_lerp_(momenta, gradients, 1 - momentum)
        directions = torch._foreach_lerp(gradients, momenta, momentum) if group["nesterov"] else momenta
        if group["weight_decay"]:
            torch._foreach_mul_([local(weight) for weight in weights], 1 - lr * group["weight_decay"])
        updates = [as_part(update, weight) for update, weight in zip(directions, weights, strict=True)]
        for weight, update in zip(weights, orthogonalised(updates, group["num_iterations"]), strict=True):
            local(weight).add_(local(update).to(weight.dtype), alpha=-lr * _size(weight, group["scale"]))

    def _momentum(self, weight: Tensor) -> Tensor:
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(weight, memory_format=torch.preserve_format)
        momentum: Tensor = state["momentum_buffer"]
        return momentum


def adamw_step(optimizer: Optimizer, weights: list[Tensor], gradients: list[Tensor], group: Group) -> None:
    """Take the step of AdamW with weights that another optimizer leaves to it."""
    states = [optimizer.state[weight] for weight in weights]
    for weight, state in zip(weights, states, strict=True):
        if not state:
            state["step"] = torch.tensor(0.0)
            for name in ("exp_avg", "exp_avg_sq"):
                state[name] = torch.zeros_like(weight, memory_format=torch.preserve_format)
    adamw(
        [local(weight) for weight in weights],
        [local(gradient) for gradient in gradients],
        [local(state["exp_avg"]) for state in states],
        [local(state["exp_avg_sq"]) for state in states],
        [],
        [state["step"] for state in states],
        foreach=True,
        amsgrad=False,
        beta1=group["betas"][0],
        beta2=group["betas"][1],
        lr=group["lr"],
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        maximize=False,
    )


def orthogonalised(updates: list[Tensor], num_iterations: int) -> list[Tensor]:
    """Return each with its singular values brought near 1; matrices of one shape are worked on together.

    What is sharded over devices is put together first, since orthogonality is of the whole matrix.
    """
    matrices = [gathered(update) for update in updates]
    by_index: dict[int, Tensor] = {}
    by_shape: dict[tuple[torch.Size, torch.device], list[int]] = {}
    for index, update in enumerate(matrices):
        by_shape.setdefault((update.shape, update.device), []).append(index)
    for indices in by_shape.values():
        together = newton_schulz(torch.stack([matrices[index].flatten(1) for index in indices]), num_iterations)
        by_index |= dict(zip(indices, together.unbind(0), strict=True))
    return [divided(by_index[index].view(matrices[index].shape), update) for index, update in enumerate(updates)]


def newton_schulz(matrices: Tensor, num_iterations: int) -> Tensor:
    """U V^T of U S V^T, roughly: S becomes values between about 0.7 and 1.2 (matrices: ..., rows, columns)."""
    a, b, c = _COEFFICIENTS
    x = matrices.to(_format(matrices))
    is_tall = x.shape[-2] > x.shape[-1]
    if is_tall:
        x = x.mT
    x = x / x.flatten(-2).norm(dim=-1).clamp(min=_EPSILON)[..., None, None]  # no singular value above 1
    for _ in range(num_iterations):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.mT if is_tall else x


def _format(tensor: Tensor) -> torch.dtype:
    """16 bits are enough where the device is quick with them; a CPU is not."""
    if tensor.device.type == "cuda":
        return torch.bfloat16
    return at_least_float32(tensor.dtype)


def _size(weight: Tensor, scale: Scale) -> float:
    """Return how far a step of lr=1 goes: as far as one of AdamW (Liu et al. 2025, https://arxiv.org/abs/2502.16982),
    or as in Jordan's version."""
    rows, columns = weight.shape[0], weight[0].numel()
    return 0.2 * math.sqrt(max(rows, columns)) if scale == "match_adamw" else math.sqrt(max(1.0, rows / columns))
