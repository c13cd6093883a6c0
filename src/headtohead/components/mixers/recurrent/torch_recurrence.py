"""The classical recurrent networks share this base: one state, updated token by token by a kernel of torch.nn."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from headtohead.components.component import Context, Mixer, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.sequence_ops.cell_sequences import gru_sequence
from headtohead.components.sequence_ops.ragged_rows import one_row_per_document, unpadded_rows

Hidden = Tensor | tuple[Tensor, Tensor]
"""The state that a kernel of torch.nn takes and gives back: h, or h and c, each [1, B, D]."""


@dataclass
class RecurrentState(State):
    """The state after the tokens read so far."""

    hidden: Float[Tensor, "B D"] | None = None
    cell: Float[Tensor, "B D"] | None = None
    """The cell state of an LSTM."""


class Recurrence(Mixer):
    """h_t = f(x_t, h_{t-1}), as wide as the model, from h_0 = 0. A kernel cannot forget inside a row: packed documents
    are read each in a row of its own."""

    reads_one_way = True
    num_gates: ClassVar[int]
    """The number of D x D matrices that meet the token, and as many the state."""
    kernel: nn.RNNBase

    def __init__(self, d_model: int, kernel: nn.RNNBase) -> None:
        super().__init__()
        self.d_model, self.causal, self.kernel = d_model, True, kernel

    def kernel_in_use(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> str:
        """Return the kernel of torch.nn, which processes all tokens at once."""
        del device, dtype
        return "fused recurrence"

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        documents = one_row_per_document(x, context)
        if documents is None:
            return self.read(x)
        return documents.back(self.read(documents.x))

    def read(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Process rows from their first token on."""
        with _unmixed(x.device):
            y: Tensor = self.kernel(self._in_own_format(x))[0]
        return y

    def _in_own_format(self, x: Tensor) -> Tensor:
        """Convert to the kernel's dtype: autocast does this on a GPU, but a CPU kernel takes one dtype for
        everything."""
        return x.to(next(self.kernel.parameters()).dtype) if x.device.type == "cpu" else x

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> RecurrentState:
        del max_length
        return RecurrentState(hidden=torch.zeros(batch_size, self.d_model, device=device, dtype=dtype))

    def hidden_of(self, state: RecurrentState) -> Hidden:
        """Return the state as the kernel takes it."""
        assert state.hidden is not None
        return state.hidden[None]

    def store(self, state: RecurrentState, hidden: Hidden) -> None:
        """Store the kernel's outputs in the state."""
        assert isinstance(hidden, Tensor)
        state.hidden = hidden[0]

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], RecurrentState]:
        assert isinstance(state, RecurrentState), "a state comes from initial_state"
        with _unmixed(x.device):
            y, after = self._continue(self._in_own_format(x), self.hidden_of(state), context)
        self.store(state, after)
        state.length += x.shape[1]
        return y, state

    def _continue(self, x: Float[Tensor, "B L D"], before: Hidden, context: Context) -> tuple[Tensor, Hidden]:
        aligned = unpadded_rows(x, context.valid)
        if aligned is None:
            y, after = self.kernel(x, before)
            return y, after
        lengths = aligned.num_real
        packed = pack_padded_sequence(aligned.x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        outputs, after = self.kernel(packed, before)
        y = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])[0]
        return aligned.back(y), _where_read(lengths > 0, after, before)

    def costs(self, query: CostContext) -> Costs:
        n, d = query.length, self.d_model
        return Costs.of(
            self,
            forward_flops=4 * self.num_gates * n * d * d,
            state_elements=self.state_width,
            activation_bytes=self.saved_bytes(query),
        )

    @property
    def state_width(self) -> int:
        """Return how many numbers are carried from token to token."""
        return self.d_model

    @abstractmethod
    def saved_bytes(self, query: CostContext) -> int:
        """Return what the kernel saves for its backward pass."""


def _unmixed(device: torch.device) -> AbstractContextManager[object]:
    return torch.autocast("cpu", enabled=False) if device.type == "cpu" else nullcontext()


def _where_read(read: Bool[Tensor, " B"], after: Hidden, before: Hidden) -> Hidden:
    """Leave rows without any real token as they were."""
    if isinstance(after, Tensor):
        assert isinstance(before, Tensor)
        return torch.where(read[None, :, None], after, before)
    return torch.where(read[None, :, None], after[0], before[0]), torch.where(read[None, :, None], after[1], before[1])


def start(kernel: nn.RNNBase) -> None:
    """Draw orthogonal matrices for the state (Saxe et al. 2014, https://arxiv.org/abs/1312.6120), and uniform ones by
    fan-in and fan-out for the tokens, gate by gate; an LSTM forgets little at first (Jozefowicz et al. 2015,
    https://proceedings.mlr.press/v37/jozefowicz15.html)."""
    for name, weight in kernel.named_parameters():
        if name.startswith("bias"):
            nn.init.zeros_(weight)
        else:
            draw = nn.init.orthogonal_ if name.startswith("weight_hh") else nn.init.xavier_uniform_
            for gate in weight.split(kernel.hidden_size):
                draw(gate)
        if name.startswith("bias_ih") and isinstance(kernel, nn.LSTM):
            nn.init.ones_(weight[kernel.hidden_size : 2 * kernel.hidden_size])


# The simple recurrent network (Elman 1990, https://doi.org/10.1207/s15516709cog1402_1), by the kernel of torch.nn.


class TanhRnn(Recurrence):
    """h_t = tanh(W x_t + U h_{t-1} + b)."""

    num_gates = 1

    def __init__(self, d_model: int, *, num_heads: int, causal: bool, dropout: float = 0.0, bias: bool = True) -> None:
        del num_heads, causal, dropout
        super().__init__(d_model, nn.RNN(d_model, d_model, bias=bias, batch_first=True))

    def saved_bytes(self, query: CostContext) -> int:
        """Return the bytes of the tokens, and of every state, the first included."""
        return (2 * query.length + 1) * self.d_model * query.bytes_per_element


# Gated recurrent units (Cho et al. 2014, https://arxiv.org/abs/1406.1078), by the kernel of torch.nn.


class Gru(Recurrence):
    """h_t = (1 - z_t) n_t + z_t h_{t-1}: an update gate z, and a candidate n that a reset gate r lets see the past."""

    num_gates = 3

    def __init__(self, d_model: int, *, num_heads: int, causal: bool, dropout: float = 0.0, bias: bool = True) -> None:
        del num_heads, causal, dropout
        super().__init__(d_model, nn.GRU(d_model, d_model, bias=bias, batch_first=True))

    def read(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Process rows from their first token on; training on a CPU takes a backward pass of our own, several times as
        fast as that of torch's kernel."""
        kernel = self.kernel
        learns = torch.is_grad_enabled() and (x.requires_grad or kernel.weight_ih_l0.requires_grad)
        if not learns or x.device.type != "cpu" or x.shape[1] == 0 or torch.compiler.is_compiling():
            return super().read(x)
        biases = (kernel.bias_ih_l0, kernel.bias_hh_l0) if kernel.bias else (None, None)
        with _unmixed(x.device):
            return gru_sequence(self._in_own_format(x), (kernel.weight_ih_l0, kernel.weight_hh_l0, *biases))

    def saved_bytes(self, query: CostContext) -> int:
        """Return the bytes of tokens, three gates, what a candidate reads of the state, and states; of torch's kernel
        on a GPU also two more."""
        tensors = 6 if query.device == "cpu" else 8
        return tensors * query.length * self.d_model * query.bytes_per_element

    def saves_output(self, query: CostContext) -> bool:
        """Return True: the states are the output."""
        del query
        return True


# Long short-term memory (Hochreiter and Schmidhuber 1997, https://doi.org/10.1162/neco.1997.9.8.1735), with the forget
# gate of Gers et al. 2000 (https://doi.org/10.1162/089976600300015015), by the kernel of torch.nn.


PAGE, CACHE_LINE = 4096, 16
"""Sizes in bytes, and in numbers of float32."""


class Lstm(Recurrence):
    """c_t = f_t c_{t-1} + i_t g_t and h_t = o_t tanh(c_t), with the gates f (forget), i (input) and o (output)."""

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

    def store(self, state: RecurrentState, hidden: Hidden) -> None:
        assert isinstance(hidden, tuple)
        state.hidden, state.cell = hidden[0][0], hidden[1][0]

    @property
    def state_width(self) -> int:
        return 2 * self.d_model

    def saved_bytes(self, query: CostContext) -> int:
        """Return the bytes that the plain kernel saves, or oneDNN's, which a CPU runs in float32: tokens, states,
        biases where there are none, and a workspace."""
        n, d = query.length, self.d_model
        if query.device != "cpu" or query.bytes_per_element != 4:
            return 8 * n * d * query.bytes_per_element
        return 4 * ((2 * n + 4) * d + (0 if self.kernel.bias else 8 * d * d)) + workspace_bytes(n, d)

    def saves_output(self, query: CostContext) -> bool:
        """Return whether a fused kernel computes it, which saves the states in one tensor, the output; the plain one of
        torch saves every state by itself."""
        return query.device != "cpu" or query.bytes_per_element == 4


def workspace_bytes(length: int, width: int, rows: int = 1) -> int:
    """Return the size of oneDNN's workspace: gates, hidden states, states to the layer above and to the next token with
    their gradients, and cells with theirs, each in whole pages."""
    gates, hidden = length * _row(4 * width), length * _row(width)
    states, cells = 2 * (length + 1) * _row(width), 2 * (length + 1) * width
    parts = (gates, hidden, states, states, states, cells, cells)
    return sum(-(-4 * rows * part // PAGE) * PAGE for part in parts)


def _row(width: int) -> int:
    """Return the distance of rows in oneDNN's memory: whole cache lines, and no number of them that aliases in
    caches."""
    full = -(-width // CACHE_LINE) * CACHE_LINE
    return full if full % 256 else full + CACHE_LINE
