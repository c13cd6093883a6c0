"""Griffin's RG-LRU, minGRU and minLSTM share this base: every channel retains a share of its state and adds a share of
a value, h_t = a_t h_{t-1} + i_t v_t, where neither share depends on the state.

E inner channels.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.attention_maps import HasAttentionMaps, implicit_decays, weighted_values
from headtohead.components.component import Context, Mixer, State
from headtohead.components.precision import at_least_float32, without_autocast
from headtohead.components.sequence_ops.ragged_rows import find_document_starts
from headtohead.components.sequence_ops.scan import forgetting, scan


@dataclass
class GatedRecurrentState(State):
    """The state of every channel, and the last inputs of a convolution where there is one."""

    hidden: Float[Tensor, "B E"] | None = None
    tail: Float[Tensor, "B T E"] | None = None


@dataclass(frozen=True)
class RecurrenceGates:
    """The gates computed from the tokens, all but `output` in float32 at least."""

    log_decay: Float[Tensor, "B L E"]
    """log a_t, never above 0."""
    share: Float[Tensor, "B L E"]
    """i_t."""
    value: Float[Tensor, "B L E"]
    output: Float[Tensor, "B L E"] | None = None
    """The factor by which the states are multiplied on their way out."""


class GatedRecurrence(Mixer, HasAttentionMaps):
    """Subclasses define how gates are computed from tokens, and outputs from states."""

    reads_one_way = True
    sums_to_one = False
    width: int
    """The number of channels."""

    @abstractmethod
    def gates(
        self,
        x: Float[Tensor, "B L D"],
        document_starts: Bool[Tensor, "B L"] | None,
        state: GatedRecurrentState | None = None,
        valid: Bool[Tensor, "B L"] | None = None,
    ) -> RecurrenceGates:
        """Return the gates of all tokens; given a state, a convolution before them continues from there, and padding is
        zero to it."""

    @abstractmethod
    def write(self, h: Float[Tensor, "B L E"], gates: RecurrenceGates) -> Float[Tensor, "B L D"]:
        """Return the output made of the states."""

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        document_starts = find_document_starts(context)
        gates = self.gates(x, document_starts)
        return self.write(self.states(gates.log_decay, gates.share * gates.value, document_starts).to(x.dtype), gates)

    def states(
        self,
        log_decay: Float[Tensor, "B L E"],
        inputs: Float[Tensor, "B L E"],
        document_starts: Bool[Tensor, "B L"] | None,
        start: Float[Tensor, "B E"] | None = None,
    ) -> Float[Tensor, "B L E"]:
        return scan(forgetting(log_decay.exp(), document_starts), inputs, start)

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """Return a_{s+1} ... a_t i_s of every channel; the recurrence has no other direction."""
        del causal
        document_starts = find_document_starts(context)
        gates = self.gates(x, document_starts)
        with without_autocast(x):
            return implicit_decays(gates.log_decay, document_starts) * gates.share.mT[:, :, None]

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        gates = self.gates(x, find_document_starts(context))
        return self.write(weighted_values(weights, gates.value).to(x.dtype), gates)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> GatedRecurrentState:
        del max_length
        exact_dtype = at_least_float32(dtype)
        return GatedRecurrentState(hidden=torch.zeros(batch_size, self.width, device=device, dtype=exact_dtype))

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], GatedRecurrentState]:
        assert isinstance(state, GatedRecurrentState), "a state comes from initial_state"
        gates = self.gates(x, None, state, context.valid)
        log_decay, inputs = gates.log_decay, gates.share * gates.value
        if context.valid is not None:
            log_decay, inputs = (t.masked_fill(~context.valid[..., None], 0.0) for t in (log_decay, inputs))
        h = self.states(log_decay, inputs, None, state.hidden)
        state.hidden = h[:, -1].clone()
        state.length += x.shape[1]
        return self.write(h.to(x.dtype), gates), state
