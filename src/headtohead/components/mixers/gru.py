"""Gated recurrent units (Cho et al. 2014, https://arxiv.org/abs/1406.1078), by the kernel of torch.nn."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headtohead.components.contracts import CostQuery
from headtohead.components.mixers.recurrence import Hidden, Recurrence, RecurrentState


class Gru(Recurrence):
    """h_t = (1 - z_t) n_t + z_t h_{t-1}: an update gate z, and a candidate n that a reset gate r lets see the past."""

    num_gates = 3

    def __init__(self, d_model: int, *, num_heads: int, causal: bool, dropout: float = 0.0, bias: bool = True) -> None:
        del num_heads, causal, dropout
        super().__init__(d_model, nn.GRU(d_model, d_model, bias=bias, batch_first=True))

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
        return 8 * query.length * self.d_model * query.bytes_per_element
