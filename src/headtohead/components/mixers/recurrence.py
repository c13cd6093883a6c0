"""What the classical recurrent networks share: one state, updated token by token by a kernel of torch.nn."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from headtohead.components.contracts import Context, CostQuery, Costs, Mixer, State
from headtohead.components.mixers.documents import by_document
from headtohead.components.mixers.realigned import realigned

Hidden = Tensor | tuple[Tensor, Tensor]
"""What a kernel of torch.nn takes and gives back: h, or h and c, each [1, B, D]."""


@dataclass
class RecurrentState(State):
    """What was read so far."""

    hidden: Float[Tensor, "B D"] | None = None
    cell: Float[Tensor, "B D"] | None = None
    """Of an LSTM."""


class Recurrence(Mixer):
    """h_t = f(x_t, h_{t-1}), as wide as the model, from h_0 = 0. A kernel cannot forget inside a row: packed documents
    are read each in a row of its own."""

    reads_one_way = True
    num_gates: ClassVar[int]
    """How many D x D matrices meet the token, and as many the state."""
    kernel: nn.RNNBase

    def __init__(self, d_model: int, kernel: nn.RNNBase) -> None:
        super().__init__()
        self.d_model, self.causal, self.kernel = d_model, True, kernel

    def kernel_in_use(self, device: torch.device | None = None, dtype: torch.dtype | None = None) -> str:
        """That of torch.nn, for all tokens at once."""
        del device, dtype
        return "fused recurrence"

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        documents = by_document(x, context)
        if documents is None:
            return self.read(x)
        return documents.back(self.read(documents.x))

    def read(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Rows from their first token on."""
        with _unmixed(x.device):
            y: Tensor = self.kernel(self._in_own_format(x))[0]
        return y

    def _in_own_format(self, x: Tensor) -> Tensor:
        """On a GPU autocast sees to the kernel's weights; on a CPU its kernel takes one number format for all."""
        return x.to(next(self.kernel.parameters()).dtype) if x.device.type == "cpu" else x

    @abstractmethod
    def hidden_of(self, state: RecurrentState) -> Hidden:
        """The state as the kernel takes it."""

    @abstractmethod
    def keep(self, state: RecurrentState, hidden: Hidden) -> None:
        """Puts into the state what the kernel gave."""

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], RecurrentState]:
        assert isinstance(state, RecurrentState), "a state comes from initial_state"
        with _unmixed(x.device):
            y, after = self._go_on(self._in_own_format(x), self.hidden_of(state), context)
        self.keep(state, after)
        state.length += x.shape[1]
        return y, state

    def _go_on(self, x: Float[Tensor, "B L D"], before: Hidden, context: Context) -> tuple[Tensor, Hidden]:
        aligned = realigned(x, context.valid)
        if aligned is None:
            y, after = self.kernel(x, before)
            return y, after
        lengths = aligned.num_real
        packed = pack_padded_sequence(aligned.x, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
        outputs, after = self.kernel(packed, before)
        y = pad_packed_sequence(outputs, batch_first=True, total_length=x.shape[1])[0]
        return aligned.back(y), _where_read(lengths > 0, after, before)

    def costs(self, query: CostQuery) -> Costs:
        n, d = query.length, self.d_model
        return Costs.of(
            self,
            forward_flops=4 * self.num_gates * n * d * d,
            state_elements=self.state_width,
            activation_bytes=self.kept_bytes(query),
        )

    @property
    @abstractmethod
    def state_width(self) -> int:
        """Numbers carried from token to token."""

    @abstractmethod
    def kept_bytes(self, query: CostQuery) -> int:
        """Return what the kernel keeps for its backward pass."""


def _unmixed(device: torch.device) -> AbstractContextManager[object]:
    return torch.autocast("cpu", enabled=False) if device.type == "cpu" else nullcontext()


def _where_read(read: Bool[Tensor, " B"], after: Hidden, before: Hidden) -> Hidden:
    """Rows without any real token stay as they were."""
    if isinstance(after, Tensor):
        assert isinstance(before, Tensor)
        return torch.where(read[None, :, None], after, before)
    return torch.where(read[None, :, None], after[0], before[0]), torch.where(read[None, :, None], after[1], before[1])


def start(kernel: nn.RNNBase) -> None:
    """Orthogonal matrices for the state (Saxe et al. 2014, https://arxiv.org/abs/1312.6120), uniform ones by fan-in and
    fan-out for the tokens, gate by gate; an LSTM forgets little at first (Jozefowicz et al. 2015,
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
