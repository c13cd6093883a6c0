"""The simple recurrent network (Elman 1990, https://doi.org/10.1207/s15516709cog1402_1), by the kernel of torch.nn."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headtohead.components.contracts import CostQuery
from headtohead.components.mixers.recurrence import Hidden, Recurrence, RecurrentState


class TanhRnn(Recurrence):
    """h_t = tanh(W x_t + U h_{t-1} + b)."""

    num_gates = 1

    def __init__(self, d_model: int, *, num_heads: int, causal: bool, dropout: float = 0.0, bias: bool = True) -> None:
        del num_heads, causal, dropout
        super().__init__(d_model, nn.RNN(d_model, d_model, bias=bias, batch_first=True))

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> RecurrentState:
        del max_length
        return RecurrentState(hidden=torch.zeros(batch_size, self.d_model, device=device, dtype=dtype))

    def hidden_of(self, state: RecurrentState) -> Tensor:
        assert state.hidden is not None
        return state.hidden[None]

    def keep(self, state: RecurrentState, hidden: Hidden) -> None:
        assert isinstance(hidden, Tensor)
        state.hidden = hidden[0]

    @property
    def state_width(self) -> int:
        return self.d_model

    def kept_bytes(self, query: CostQuery) -> int:
        """Return the bytes of the tokens, and of every state, the first included."""
        return (2 * query.length + 1) * self.d_model * query.bytes_per_element
