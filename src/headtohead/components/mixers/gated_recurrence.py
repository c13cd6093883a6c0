"""What Griffin's RG-LRU, minGRU and minLSTM share: every channel keeps a share of its state and takes in a share of a
value, h_t = a_t h_{t-1} + i_t v_t, where neither share knows the state.

E inner channels.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.attending import Attends
from headtohead.components.contracts import Context, Mixer, State
from headtohead.components.mixers.documents import starts
from headtohead.components.mixers.implicit import applied, decayed
from headtohead.components.mixers.scan import forgetting, full_precision, scan


@dataclass
class RecurrentState(State):
    """The state of every channel, and the last inputs of a convolution where there is one."""

    hidden: Float[Tensor, "B E"] | None = None
    tail: Float[Tensor, "B T E"] | None = None


@dataclass(frozen=True)
class Gates:
    """What the tokens decided, all but `output` in float32 at least."""

    log_decay: Float[Tensor, "B L E"]
    """log a_t, never above 0."""
    share: Float[Tensor, "B L E"]
    """i_t."""
    value: Float[Tensor, "B L E"]
    output: Float[Tensor, "B L E"] | None = None
    """What the states are multiplied by on their way out."""


class GatedRecurrence(Mixer, Attends):
    """Subclasses say how gates are made of tokens, and outputs of states."""

    reads_one_way = True
    sums_to_one = False
    width: int
    """How many channels there are."""

    @abstractmethod
    def gates(
        self,
        x: Float[Tensor, "B L D"],
        begins: Bool[Tensor, "B L"] | None,
        state: RecurrentState | None = None,
        valid: Bool[Tensor, "B L"] | None = None,
    ) -> Gates:
        """The gates of all tokens; given a state, a convolution before them goes on from there, and what is not
        valid is nothing to it."""

    @abstractmethod
    def write(self, h: Float[Tensor, "B L E"], gates: Gates) -> Float[Tensor, "B L D"]:
        """What the states give."""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        begins = starts(context)
        gates = self.gates(x, begins)
        return self.write(self.states(gates.log_decay, gates.share * gates.value, begins).to(x.dtype), gates)

    def states(
        self,
        log_decay: Float[Tensor, "B L E"],
        inputs: Float[Tensor, "B L E"],
        begins: Bool[Tensor, "B L"] | None,
        start: Float[Tensor, "B E"] | None = None,
    ) -> Float[Tensor, "B L E"]:
        return scan(forgetting(log_decay.exp(), begins), inputs, start)

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """a_{s+1} ... a_t i_s of every channel; the recurrence has no other direction."""
        del causal
        begins = starts(context)
        gates = self.gates(x, begins)
        with full_precision(x):
            return decayed(gates.log_decay, begins) * gates.share.mT[:, :, None]

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        gates = self.gates(x, starts(context))
        return self.write(applied(weights, gates.value).to(x.dtype), gates)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> RecurrentState:
        del max_length
        exact_dtype = torch.promote_types(dtype, torch.float32)
        return RecurrentState(hidden=torch.zeros(batch_size, self.width, device=device, dtype=exact_dtype))

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], RecurrentState]:
        assert isinstance(state, RecurrentState), "a state comes from initial_state"
        gates = self.gates(x, None, state, context.valid)
        log_decay, inputs = gates.log_decay, gates.share * gates.value
        if context.valid is not None:
            log_decay, inputs = (t.masked_fill(~context.valid[..., None], 0.0) for t in (log_decay, inputs))
        h = self.states(log_decay, inputs, None, state.hidden)
        state.hidden = h[:, -1].clone()
        state.length += x.shape[1]
        return self.write(h.to(x.dtype), gates), state
