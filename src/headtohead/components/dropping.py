"""What may be dropped of a residual branch: single numbers (Srivastava et al. 2014,
https://jmlr.org/papers/v15/srivastava14a.html) or the whole branch of a sample (Huang et al. 2016,
https://arxiv.org/abs/1603.09382)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headtohead.components.contracts import Component, CostQuery, Costs
from headtohead.errors import UsageError


class Branch(Component):
    """Dropout, then drop path; a kept branch is scaled up, so that the mean stays."""

    def __init__(self, d_model: int, num_sublayers: int, *, dropout: float, drop_path: float) -> None:
        super().__init__()
        for name, value in (("dropout", dropout), ("drop_path", drop_path)):
            if not 0.0 <= value < 1.0:
                raise UsageError(f"{name}={value} is no probability below 1: choose 0 <= {name} < 1")
        self.d_model, self.num_sublayers, self.dropout, self.drop_path = d_model, num_sublayers, dropout, drop_path

    def forward(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        if not self.training:
            return x
        x = F.dropout(x, self.dropout)
        if self.drop_path == 0.0:
            return x
        keep = 1.0 - self.drop_path
        return x * torch.empty(len(x), 1, 1, dtype=x.dtype, device=x.device).bernoulli_(keep).div_(keep)

    def costs(self, query: CostQuery) -> Costs:
        elements = query.length * self.d_model * (self.dropout > 0) + (self.drop_path > 0)
        return Costs.of(self, activation_bytes=self.num_sublayers * elements * query.bytes_per_element)
