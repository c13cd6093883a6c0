"""The identity mixer leaves every token as it is."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.component import Context, Mixer, State
from headtohead.components.costs import CostContext, Costs


class Identity(Mixer):
    """y = x; before another mixer, the stack leaves it out."""

    follows_order = False
    no_mup_rule = ""

    def __init__(self, d_model: int, *, num_heads: int, causal: bool, dropout: float = 0.0) -> None:
        super().__init__()
        del d_model, num_heads, dropout
        self.causal = causal

    def kernel_in_use(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> str:
        """Return nothing, since nothing is computed."""
        del device, dtype
        return ""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        del context
        return x

    def initial_state(self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype) -> State:
        del batch_size, max_length, device, dtype
        return State()

    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> tuple[Float[Tensor, "B L D"], State]:
        del context
        return x, state

    def costs(self, query: CostContext) -> Costs:
        del query
        return Costs()
