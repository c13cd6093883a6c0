"""SOAP: Adam in the eigenbasis of Shampoo's preconditioner, which turns slowly (Vyas et al. 2024,
https://arxiv.org/abs/2409.11321); biases, norms and gains take the steps of AdamW."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor
from torch.optim import Optimizer

from headtohead.components.precision import at_least_float32
from headtohead.training.optim.elementwise_optimizers import Group, with_gradients
from headtohead.training.optim.muon import adamw_step


class Soap(Optimizer):
    """Each dimension of a weight has a covariance of gradients L <- b2 L + (1 - b2) G G^T and a basis Q of its
    eigenvectors; of a matrix, N = Q_L Adam(Q_L^T G Q_R) Q_R^T.

    As in the authors' program, the first step only finds the bases: a gradient is never turned by a basis of its own.
    Of a dimension that is longer than the gradient's rank, rounding decides a part of the basis, and so of the steps:
    runs are repeated to the last bit on one machine, and differ between devices by more than rounding.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[Group],
        *,
        lr: float,
        betas: tuple[float, float] = (0.95, 0.95),
        basis_every: int = 10,
        max_basis: int = 10000,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "basis_every": basis_every, "max_basis": max_basis}
        super().__init__(params, {**defaults, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            weights, gradients = with_gradients(group["params"])
            pairs = list(zip(weights, gradients, strict=True))
            for weight, gradient in pairs:
                if weight.ndim > 1:
                    self._step_in_basis(weight, gradient, group)
            if rest := [weight for weight in weights if weight.ndim < 2]:
                adamw_step(self, rest, [gradient for _, gradient in pairs if gradient.ndim < 2], group)
        return loss

    def _step_in_basis(self, weight: Tensor, gradient: Tensor, group: Group) -> None:
        state = self.state[weight]
        gradient = gradient.to(at_least_float32(gradient.dtype))
        if not state:
            self._begin(weight, gradient, group)
            return
        state["step"] += 1
        steps, (for_mean, for_square) = int(state["step"]), group["betas"]
        bases = _of_dimensions(state, "basis", weight.ndim)
        turned = turn(gradient, bases)
        state["exp_avg"].lerp_(gradient, 1 - for_mean)
        state["exp_avg_sq"].mul_(for_square).addcmul_(turned, turned, value=1 - for_square)
        direction = turn(state["exp_avg"], bases) / state["exp_avg_sq"].sqrt().add_(group["eps"])
        size = group["lr"] * math.sqrt(1 - for_square**steps) / (1 - for_mean**steps)
        if group["weight_decay"]:
            weight.mul_(1 - group["lr"] * group["weight_decay"])
        weight.add_(turn(direction, bases, back=True).to(weight.dtype), alpha=-size)
        _add_covariances(state, gradient, 1 - for_square)
        if steps % group["basis_every"] == 0:
            _turn_bases(state, weight.ndim)

    def _begin(self, weight: Tensor, gradient: Tensor, group: Group) -> None:
        """Find the bases of the first gradient."""
        state = self.state[weight]
        state["step"] = torch.tensor(0.0)
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(gradient), torch.zeros_like(gradient)
        for dimension in based_dimensions(weight.shape, group["max_basis"]):
            size = weight.shape[dimension]
            state[f"covariance_{dimension}"] = gradient.new_zeros(size, size)
        _add_covariances(state, gradient, 1 - group["betas"][1])
        for dimension in based_dimensions(weight.shape, group["max_basis"]):
            state[f"basis_{dimension}"] = first_basis(state[f"covariance_{dimension}"])


def first_basis(covariance: Tensor) -> Tensor:
    """Return the eigenvectors as columns, that of the largest eigenvalue first; the axes where numbers are not finite,
    so that the run ends as one that diverged."""
    if not covariance.isfinite().all():
        return torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    try:
        vectors: Tensor = torch.linalg.eigh(covariance).eigenvectors
    except RuntimeError:  # LAPACK's: eigenvalues too near each other for these digits
        vectors = torch.linalg.eigh(covariance.double()).eigenvectors.to(covariance.dtype)
    return vectors.flip(1)


def based_dimensions(shape: torch.Size, max_basis: int) -> list[int]:
    """Return the dimensions of a weight that have a basis: those of a matrix or of more, but for very long ones."""
    return [] if len(shape) < 2 else [index for index, size in enumerate(shape) if size <= max_basis]


def turn(tensor: Tensor, bases: list[Tensor | None], *, back: bool = False) -> Tensor:
    """Return the tensor with every dimension in its basis, or back from there; without one it stays as it is."""
    for dimension, basis in enumerate(bases):
        if basis is not None:
            turned = torch.tensordot(tensor, basis, dims=([dimension], [1 if back else 0]))
            tensor = turned.movedim(-1, dimension)
    return tensor


def _of_dimensions(state: dict[str, Tensor], name: str, number: int) -> list[Tensor | None]:
    return [state.get(f"{name}_{dimension}") for dimension in range(number)]


def _add_covariances(state: dict[str, Tensor], gradient: Tensor, share: float) -> None:
    for dimension, covariance in enumerate(_of_dimensions(state, "covariance", gradient.ndim)):
        if covariance is not None:
            rows = gradient.movedim(dimension, 0).flatten(1)
            covariance.lerp_(rows @ rows.mT, share)


def _turn_bases(state: dict[str, Tensor], number: int) -> None:
    """Take one step of the power iteration with QR; the squares are sorted with the eigenvectors they belong to."""
    for dimension, covariance in enumerate(_of_dimensions(state, "covariance", number)):
        if covariance is not None:
            basis = state[f"basis_{dimension}"]
            moved = covariance @ basis
            order = (basis * moved).sum(0).argsort(descending=True)
            state["exp_avg_sq"] = state["exp_avg_sq"].index_select(dimension, order)
            state[f"basis_{dimension}"] = torch.linalg.qr(moved[:, order]).Q
