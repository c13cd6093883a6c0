"""Lion: the sign of a momentum, so that every weight moves equally far (Chen et al. 2023,
https://arxiv.org/abs/2302.06675)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from headtohead.training.parallel.sharded_tensors import local

Group = dict[str, Any]
"""A group of parameters with what all of them share, as torch's optimizers hold it."""


class Lion(Optimizer):
    """c = b1 m + (1 - b1) g; w <- w - lr (sign(c) + decay w); m <- b2 m + (1 - b2) g: one tensor of state a weight."""

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            weights, gradients = with_gradients(group["params"])
            if weights:
                self._update(weights, gradients, group)
        return loss

    def _update(self, weights: list[Tensor], gradients: list[Tensor], group: Group) -> None:
        lr, (for_step, for_memory) = group["lr"], group["betas"]
        momenta = [self._momentum(weight) for weight in weights]
        weights, gradients, momenta = ([local(tensor) for tensor in of] for of in (weights, gradients, momenta))
        directions = torch._foreach_lerp(momenta, gradients, 1 - for_step)
        torch._foreach_sign_(directions)
        if group["weight_decay"]:
            torch._foreach_mul_(weights, 1 - lr * group["weight_decay"])
        torch._foreach_add_(weights, directions, alpha=-lr)
        torch._foreach_lerp_(momenta, gradients, 1 - for_memory)

    def _momentum(self, weight: Tensor) -> Tensor:
        state = self.state[weight]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(weight, memory_format=torch.preserve_format)
        momentum: Tensor = state["momentum"]
        return momentum


def with_gradients(weights: Iterable[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """Return those that a backward pass reached, and their gradients."""
    pairs = [(weight, weight.grad) for weight in weights if weight.grad is not None]
    return [weight for weight, _ in pairs], [gradient for _, gradient in pairs]
