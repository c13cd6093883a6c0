"""Normalisations of tokens."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.contracts import Component, Context, CostQuery, Costs, Norm


class RmsScale(Component):
    """x / rms(x) * weight over the last axis (Zhang and Sennrich 2019, https://arxiv.org/abs/1910.07467)."""

    def __init__(self, width: int, *, eps: float = 1e-6) -> None:
        super().__init__()
        self.width, self.eps = width, eps
        self.weight = nn.Parameter(torch.ones(width))

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        return F.rms_norm(x, (self.width,), self.weight, self.eps)

    def costs(self, query: CostQuery) -> Costs:
        return Costs.of(self, activation_bytes=query.length * (self.width * query.bytes_per_element + 4))


class LayerNorm(Norm):
    """Zero mean, unit variance for each token (Ba et al. 2016, https://arxiv.org/abs/1607.06450)."""

    def __init__(self, d_model: int, *, eps: float = 1e-5, bias: bool = True) -> None:
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

    def costs(self, query: CostQuery) -> Costs:
        return Costs.of(self, activation_bytes=query.length * (self.d_model * query.bytes_per_element + 8))
