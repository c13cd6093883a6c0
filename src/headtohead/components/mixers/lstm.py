"""Long short-term memory (Hochreiter and Schmidhuber 1997, https://doi.org/10.1162/neco.1997.9.8.1735), with the forget
gate of Gers et al. 2000 (https://doi.org/10.1162/089976600300015015), by the kernel of torch.nn."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headtohead.components.mixers.recurrence import Hidden, Recurrence, RecurrentState


class Lstm(Recurrence):
    """c_t = f_t c_{t-1} + i_t g_t and h_t = o_t tanh(c_t): what is kept, what is written, what is shown."""

    num_gates = 4

    def __init__(self, d_model: int, *, num_heads: int, causal: bool, dropout: float = 0.0, bias: bool = True) -> None:
        del num_heads, causal, dropout
        super().__init__(d_model, nn.LSTM(d_model, d_model, bias=bias, batch_first=True))

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> RecurrentState:
        del max_length
        hidden, cell = (torch.zeros(batch_size, self.d_model, device=device, dtype=dtype) for _ in range(2))
        return RecurrentState(hidden=hidden, cell=cell)

    def hidden_of(self, state: RecurrentState) -> tuple[Tensor, Tensor]:
        assert state.hidden is not None and state.cell is not None
        return state.hidden[None], state.cell[None]

    def keep(self, state: RecurrentState, hidden: Hidden) -> None:
        assert isinstance(hidden, tuple)
        state.hidden, state.cell = hidden[0][0], hidden[1][0]

    @property
    def state_width(self) -> int:
        return 2 * self.d_model

    def kept_elements(self, length: int) -> int:
        """Of the plain kernel; oneDNN's on a CPU keeps a workspace of its own size."""
        return 8 * length * self.d_model
