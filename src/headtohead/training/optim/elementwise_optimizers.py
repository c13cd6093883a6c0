"""Optimizers that treat each element alike: Lion, the sign of a momentum, so that every weight moves equally far (Chen
et al. 2023, https://arxiv.org/abs/2302.06675), and AdEMAMix, AdamW with a second momentum that forgets slowly
(Pagliardini et al. 2024, https://arxiv.org/abs/2409.03137)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from headtohead.training.parallel.sharding import local

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


_STATES = ("fast", "slow", "square")


class AdEMAMix(Optimizer):
    """w <- w - lr ((m1 / (1 - b1^t) + a m2) / (sqrt(v / (1 - b2^t)) + eps) + decay w), where m1, m2 and v are averages
    of g, g and g^2 with betas b1, b3 and b2.

    Over the first `ramp` steps the weight a grows from 0, and the half life of b3 from that of b1, both linearly.
    """

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        slow_beta: float = 0.9999,
        slow_weight: float = 5.0,
        ramp: int | None = None,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "slow_beta": slow_beta, "slow_weight": slow_weight, "ramp": ramp}
        super().__init__(params, {**defaults, "eps": eps, "weight_decay": weight_decay, "steps": 0})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            group["steps"] += 1
            weights, gradients = with_gradients(group["params"])
            if weights:
                self._update(weights, gradients, group)
        return loss

    def _update(self, weights: list[Tensor], gradients: list[Tensor], group: Group) -> None:
        steps, (for_mean, for_square) = group["steps"], group["betas"]
        fast, slow, square = ([local(self._state(weight, name)) for weight in weights] for name in _STATES)
        weights, gradients = ([local(tensor) for tensor in of] for of in (weights, gradients))
        torch._foreach_lerp_(fast, gradients, 1 - for_mean)
        torch._foreach_lerp_(slow, gradients, 1 - slow_beta(group))
        torch._foreach_mul_(square, for_square)
        torch._foreach_addcmul_(square, gradients, gradients, 1 - for_square)
        directions = torch._foreach_div(fast, 1 - for_mean**steps)
        torch._foreach_add_(directions, slow, alpha=slow_weight(group))
        sizes = torch._foreach_sqrt(square)
        torch._foreach_div_(sizes, math.sqrt(1 - for_square**steps))
        torch._foreach_add_(sizes, group["eps"])
        if group["weight_decay"]:
            torch._foreach_mul_(weights, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_addcdiv_(weights, directions, sizes, -group["lr"])

    def _state(self, weight: Tensor, name: str) -> Tensor:
        state = self.state[weight]
        if name not in state:
            state[name] = torch.zeros_like(weight, memory_format=torch.preserve_format)
        average: Tensor = state[name]
        return average


def _progress(group: Group) -> float:
    return 1.0 if group["ramp"] is None else min(1.0, group["steps"] / group["ramp"])


def slow_weight(group: Group) -> float:
    """Return the weight of the slow momentum after so many steps."""
    return float(group["slow_weight"] * _progress(group))


def slow_beta(group: Group) -> float:
    """Return the beta of the slow momentum after so many steps, whose half life grows linearly."""
    start, end, progress = math.log(group["betas"][0]), math.log(group["slow_beta"]), _progress(group)
    return min(float(group["slow_beta"]), math.exp(start * end / ((1 - progress) * end + progress * start)))
