"""Long short-term memory (Hochreiter and Schmidhuber 1997, https://doi.org/10.1162/neco.1997.9.8.1735), with the forget
gate of Gers et al. 2000 (https://doi.org/10.1162/089976600300015015), by the kernel of torch.nn."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headtohead.components.contracts import CostQuery
from headtohead.components.mixers.recurrence import Hidden, Recurrence, RecurrentState

PAGE, CACHE_LINE = 4096, 16
"""In bytes, and in numbers of float32."""


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

    def kept_bytes(self, query: CostQuery) -> int:
        """Return the bytes that the plain kernel keeps, or oneDNN's, which a CPU runs in float32: tokens, states,
        biases where there are none, and a workspace."""
        n, d = query.length, self.d_model
        if query.device != "cpu" or query.bytes_per_element != 4:
            return 8 * n * d * query.bytes_per_element
        return 4 * ((2 * n + 4) * d + (0 if self.kernel.bias else 8 * d * d)) + workspace_bytes(n, d)


def workspace_bytes(length: int, width: int) -> int:
    """Return the size of oneDNN's workspace for one row: gates, hidden states, states to the layer above and to the
    next token with their gradients, and cells with theirs, each in whole pages."""
    gates, hidden = length * _row(4 * width), length * _row(width)
    states, cells = 2 * (length + 1) * _row(width), 2 * (length + 1) * width
    parts = (gates, hidden, states, states, states, cells, cells)
    return sum(-(-4 * part // PAGE) * PAGE for part in parts)


def _row(width: int) -> int:
    """Return how many numbers apart oneDNN puts rows: whole cache lines, and no number of them that caches fold."""
    whole = -(-width // CACHE_LINE) * CACHE_LINE
    return whole if whole % 256 else whole + CACHE_LINE
