"""Schedule-free AdamW: a running average of the weights stands in for a learning rate that falls (Defazio et al. 2024,
https://arxiv.org/abs/2405.15682)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.optim import Optimizer

from headtohead.errors import UsageError
from headtohead.training.optim.elementwise_optimizers import Group, with_gradients
from headtohead.training.optim.weight_updates import EvaluatedWeights


class ScheduleFree(Optimizer):
    """Gradients are taken at y = (1 - b1) z + b1 x; z <- z - lr (g / (sqrt(v / (1 - b2^t)) + eps) + decay y), and x,
    which is evaluated, is the average of z with weights max(lr so far)^2, so that a warm-up weighs little.

    The model holds y while it trains, the state z and v; x follows from y and z.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        if not betas[0] > 0:
            raise UsageError(
                f"optimizer.betas[0]={betas[0]} leaves nothing of the average in the weights, from which it could not "
                "be computed: give a number above 0, such as 0.9"
            )
        sums = {"steps": 0, "largest_lr": 0.0, "sum_of_weights": 0.0}
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, **sums})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            group["steps"] += 1
            group["largest_lr"] = max(group["largest_lr"], group["lr"])
            newest = group["largest_lr"] ** 2
            group["sum_of_weights"] += newest
            weights, gradients = with_gradients(group["params"])
            if weights:
                share = newest / group["sum_of_weights"] if newest else 0.0
                self._update(weights, gradients, group, share)
        return loss

    def _update(self, weights: list[Tensor], gradients: list[Tensor], group: Group, share: float) -> None:
        """Move y and z; `share` is that of the newest z in the average."""
        lr, (for_mean, for_square) = group["lr"], group["betas"]
        stepped = [self._state(weight, "z", weight.detach()) for weight in weights]
        square = [self._state(weight, "square", torch.zeros_like(weight)) for weight in weights]
        torch._foreach_mul_(square, for_square)
        torch._foreach_addcmul_(square, gradients, gradients, 1 - for_square)
        sizes = torch._foreach_div(square, 1 - for_square ** group["steps"])
        torch._foreach_sqrt_(sizes)
        torch._foreach_add_(sizes, group["eps"])
        directions = torch._foreach_div(gradients, sizes)
        if group["weight_decay"]:
            torch._foreach_add_(directions, weights, alpha=group["weight_decay"])
        torch._foreach_lerp_(weights, stepped, share)
        torch._foreach_add_(weights, directions, alpha=lr * (for_mean * (1 - share) - 1))
        torch._foreach_sub_(stepped, directions, alpha=lr)

    def _state(self, weight: Tensor, name: str, start: Tensor) -> Tensor:
        state = self.state[weight]
        if name not in state:
            state[name] = start.clone(memory_format=torch.preserve_format)
        tensor: Tensor = state[name]
        return tensor

    @torch.no_grad()
    def averages(self) -> list[tuple[Tensor, Tensor]]:
        """Return each weight that has been trained, and the average x that is evaluated in its place."""
        return [
            (weight, torch.lerp(weight.detach(), self.state[weight]["z"], 1 - 1 / group["betas"][0]))
            for group in self.param_groups
            for weight in group["params"]
            if "z" in self.state.get(weight, {})
        ]


class ScheduleFreeWeights(EvaluatedWeights):
    """The model holds the averages of its optimizer while it is evaluated, and trains on from the same bits."""

    def __init__(self, optimizer: ScheduleFree) -> None:
        self._optimizer = optimizer
        self._trained: list[tuple[Tensor, Tensor]] = []

    def update(self, step: int) -> None:
        """Do nothing: a step of the optimizer has moved the averages, too."""

    def swap(self) -> None:
        if self._trained:
            for weight, trained in self._trained:
                weight.data = trained
            self._trained = []
            return
        for weight, average in self._optimizer.averages():
            self._trained.append((weight, weight.data))
            weight.data = average

    def state(self) -> list[Tensor]:
        """Return nothing: the averages follow from the weights and the optimizer's state."""
        return []

    def load(self, average: list[Tensor]) -> None:
        assert not average, "the average of another optimizer"
