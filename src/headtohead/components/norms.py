"""Normalisations of tokens."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.block_parts import Norm
from headtohead.components.checkpointing import is_recomputing
from headtohead.components.component import Component, Context
from headtohead.components.costs import CostContext, Costs
from headtohead.components.precision import at_least_float32
from headtohead.ranges import Positive, Probability, Real


class _RmsFunction(torch.autograd.Function):
    """x / rms(x) * weight, keeping only x and one number per row: a sixth of the composed form's time on a CPU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        inverse = _inverse_rms(x, eps)
        ctx.save_for_backward(x, weight, inverse)
        ctx.eps = eps
        return (x * inverse).mul_(weight).to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        """Compute g x, of which two sums give the gradient of the weight and the part along x; first derivatives in one
        format by the kernel of layer norm, which takes the mean of the gradient away besides."""
        x, weight, inverse = ctx.saved_tensors
        if not torch.is_grad_enabled() and x.dtype == weight.dtype == grad.dtype == inverse.dtype:
            return (*_by_layer_norm(grad, x, weight, inverse), None)
        if torch.is_grad_enabled():  # a second derivative is needed, and flows through the root too
            inverse = _inverse_rms(x, ctx.eps)
        exact = inverse.dtype
        rows, grads, scale = x.flatten(0, -2).to(exact), grad.flatten(0, -2).to(exact), inverse.flatten(0, -2)
        gain = weight.to(exact)
        both = grads * rows
        grad_weight = (both * scale).sum(0)
        along = (both * gain).sum(-1, keepdim=True) * scale.square() / x.shape[-1]
        grad_x = (grads * gain).addcmul_(rows, along, value=-1).mul_(scale)
        return grad_x.view_as(x).to(x.dtype), grad_weight.to(weight.dtype), None


def _by_layer_norm(
    grad: Float[Tensor, "*any D"], x: Float[Tensor, "*any D"], weight: Float[Tensor, " D"], inverse: Tensor
) -> tuple[Float[Tensor, "*any D"], Float[Tensor, " D"]]:
    """Return the gradients of a layer norm whose mean is 0, with what its mean's gradient took away put back."""
    grad, x = grad.contiguous(), x.contiguous()
    grad_x, grad_weight, _ = torch.ops.aten.native_layer_norm_backward(
        grad, x, weight.shape, torch.zeros_like(inverse), inverse, weight, None, [True, True, False]
    )
    mean = (grad * weight).mean(-1, keepdim=True)  # a product would be faster, and the ledger would miss it
    return grad_x.add_(mean.mul_(inverse)), grad_weight  # addcmul_ of two columns takes six times as long


def _inverse_rms(x: Float[Tensor, "*any D"], eps: float) -> Float[Tensor, "*any 1"]:
    exact = at_least_float32(x.dtype)
    y: Tensor = (torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=exact).square() / x.shape[-1] + eps).rsqrt()
    return y


class RmsScale(Component):
    """x / rms(x) * weight over the last axis, whatever the other axes."""

    def __init__(self, width: int, *, eps: float = 1e-6) -> None:
        super().__init__()
        self.width, self.eps = width, eps
        self.weight = nn.Parameter(torch.ones(width))

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)

    def forward(self, x: Float[Tensor, "*any D"]) -> Float[Tensor, "*any D"]:
        if x.is_cuda:  # a fused kernel exists
            return F.rms_norm(x, (self.width,), self.weight.to(x.dtype), self.eps)
        y: Tensor = _RmsFunction.apply(x, self.weight, self.eps)  # type: ignore[no-untyped-call]
        return y

    def costs(self, query: CostContext) -> Costs:
        return Costs.of(self, activation_bytes=query.length * (self.width * query.bytes_per_element + 4))


class LayerNorm(Norm):
    """Zero mean, unit variance for each token (Ba et al. 2016, https://arxiv.org/abs/1607.06450)."""

    no_mup_rule = ""

    def __init__(self, d_model: int, *, eps: Positive = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.d_model, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model)) if bias else None

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        del context
        return F.layer_norm(x, (self.d_model,), self.weight, self.bias, self.eps)

    def costs(self, query: CostContext) -> Costs:
        return Costs.of(self, activation_bytes=query.length * (self.d_model * query.bytes_per_element + 8))


class RmsNorm(Norm):
    """Unit root mean square for each token (Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467)."""

    no_mup_rule = ""

    def __init__(self, d_model: int, *, eps: Positive = 1e-6) -> None:
        super().__init__()
        self.scale = RmsScale(d_model, eps=eps)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        del context
        y: Tensor = self.scale(x)
        return y

    def costs(self, query: CostContext) -> Costs:
        return self.scale.costs(query)


class BatchNorm(Norm):
    """Zero mean, unit variance for each channel over the valid tokens of the batch (Ioffe and Szegedy 2015,
    https://arxiv.org/abs/1502.03167); in training a token sees all others, later ones too."""

    no_mup_rule = ""
    keeps_statistics = True
    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, d_model: int, *, eps: Positive = 1e-5, momentum: Probability = 0.1) -> None:
        super().__init__()
        self.d_model, self.eps, self.momentum = d_model, eps, momentum
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_variance", torch.ones(d_model))

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)
        self.running_mean.zero_()
        self.running_variance.fill_(1.0)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        valid = context.valid
        if self.training and valid is None and x.shape[:2].numel() == 1:  # torch's own function refuses one token
            valid = x.new_ones(x.shape[:2], dtype=torch.bool)
        if self.training and valid is not None:
            return self._over_valid(x, valid)
        statistics = self.running_mean, self.running_variance
        if is_recomputing():
            # Copies take the second update; without any, autograd would keep fewer tensors than the first time.
            statistics = self.running_mean.clone(), self.running_variance.clone()
        flat = F.batch_norm(
            x.flatten(0, 1),
            *statistics,
            self.weight,
            self.bias,
            self.training,
            self.momentum,
            self.eps,
        )
        return flat.view_as(x)

    def _over_valid(self, x: Float[Tensor, "B L D"], valid: Bool[Tensor, "B L"]) -> Float[Tensor, "B L D"]:
        weights = valid[..., None].to(x.dtype)
        count = weights.sum().clamp(min=1)
        mean = (x * weights).sum((0, 1)) / count
        variance = ((x - mean).square() * weights).sum((0, 1)) / count
        if not is_recomputing():
            with torch.no_grad():
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
                unbiased = variance * (count / (count - 1).clamp(min=1))
                self.running_variance.lerp_(unbiased.to(self.running_variance.dtype), self.momentum)
        return (x - mean) * (variance + self.eps).rsqrt() * self.weight + self.bias

    def costs(self, query: CostContext) -> Costs:
        saved = (query.length + 2) * self.d_model * query.bytes_per_element
        return Costs.of(self, activation_bytes=saved)


class DynamicTanh(Norm):
    """tanh(a x) * weight + bias with one learned number a, and no statistics (Zhu et al. 2025,
    https://arxiv.org/abs/2503.10622)."""

    def __init__(self, d_model: int, *, initial_alpha: Positive = 0.5) -> None:
        super().__init__()
        self.d_model, self.initial_alpha = d_model, initial_alpha
        self.alpha = nn.Parameter(torch.full((1,), initial_alpha))
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def reset_parameters(self) -> None:
        nn.init.constant_(self.alpha, self.initial_alpha)
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        del context
        return torch.tanh(self.alpha * x) * self.weight + self.bias

    def costs(self, query: CostContext) -> Costs:
        """Return the costs; autograd saves the input, for the gradient of a, and the tanh."""
        return Costs.of(self, activation_bytes=2 * query.length * self.d_model * query.bytes_per_element)


class DynamicErf(Norm):
    """erf(a x + s) * weight + bias with two learned numbers a and s, and no statistics (Chen et al. 2025,
    https://arxiv.org/abs/2512.10938)."""

    def __init__(self, d_model: int, *, initial_alpha: Positive = 0.5, initial_shift: Real = 0.0) -> None:
        super().__init__()
        self.d_model, self.initial_alpha, self.initial_shift = d_model, initial_alpha, initial_shift
        self.alpha = nn.Parameter(torch.full((1,), initial_alpha))
        self.shift = nn.Parameter(torch.full((1,), initial_shift))
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def reset_parameters(self) -> None:
        nn.init.constant_(self.alpha, self.initial_alpha)
        nn.init.constant_(self.shift, self.initial_shift)
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        del context
        return torch.erf(self.alpha * x + self.shift) * self.weight + self.bias

    def costs(self, query: CostContext) -> Costs:
        """Return the costs; autograd saves the input, for the gradient of a, what erf reads, and what it returns."""
        return Costs.of(self, activation_bytes=3 * query.length * self.d_model * query.bytes_per_element)


class NoNorm(Norm):
    """A norm that changes nothing."""

    no_mup_rule = ""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        del d_model

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        del context
        return x

    def costs(self, query: CostContext) -> Costs:
        del query
        return Costs()
