"""A mixer without scores, which has no attention to show: every token sees the mean of those before it."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.component import Context, Mixer, State
from headtohead.components.costs import CostContext, Costs


class RunningMean(Mixer):
    """A mixer for training and evaluation, which cannot decode."""

    can_be_bidirectional = False

    def __init__(self, d_model: int, *, num_heads: int, causal: bool, dropout: float = 0.0) -> None:
        super().__init__()
        del num_heads, dropout
        self.causal = causal
        self.output = nn.Linear(d_model, d_model)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        del context
        counts = torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]
        return self.output(x.cumsum(1) / counts)

    def initial_state(self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype) -> State:
        raise NotImplementedError("nothing is decoded with it")

    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> tuple[Float[Tensor, "B L D"], State]:
        raise NotImplementedError("nothing is decoded with it")

    def costs(self, query: CostContext) -> Costs:
        d_model = self.output.in_features
        return Costs.of(self, forward_flops=2 * query.length * d_model**2)
