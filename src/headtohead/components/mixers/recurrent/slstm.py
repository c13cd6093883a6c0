"""The LSTM with exponential gates, a normaliser, and states that mix within heads: sLSTM of xLSTM (Beck et al. 2024,
https://arxiv.org/abs/2405.04517)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.attention_maps import HasAttentionMaps, visible_pairs, weighted_values
from headtohead.components.component import Context, Mixer, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import LinearMap, ResidualLinear
from headtohead.components.mixers.attention.softmax_attention import equal_share
from headtohead.components.precision import at_least_float32, without_autocast
from headtohead.components.sequence_ops.cell_sequences import CellStates, next_states, slstm_sequence
from headtohead.components.sequence_ops.ragged_rows import find_document_starts
from headtohead.ranges import Positive

FORGETS_NOTHING_YET = 3.0, 6.0
"""Biases of the forget gates at the start, from the first channel of a head to its last, as the mLSTM has by head."""


@dataclass
class SlstmState(State):
    """Output, cell, normaliser and scale of every channel."""

    states: Float[Tensor, "B 4 H K"] | None = None


class Slstm(Mixer, HasAttentionMaps):
    """c_t = f_t c_(t-1) + i_t z_t and n_t = f_t n_(t-1) + i_t; h_t = o_t c_t / n_t, where z, i, f and o are made of the
    token and, within each head, of h_(t-1). i is an exponential, f and o are sigmoids. Heads are normed each by
    itself."""

    reads_one_way = True

    def __init__(
        self, d_model: int, *, num_heads: int, causal: bool, dropout: float = 0.0, eps: Positive = 1e-5
    ) -> None:
        super().__init__()
        del causal, dropout  # it reads from left to right, and has no weights to drop
        self.causal, self.d_model, self.num_heads, self.eps = True, d_model, num_heads, eps
        self.head_width = equal_share(d_model, num_heads)
        self.input = LinearMap(d_model, 4 * d_model, bias=False)
        self.recurrent = nn.Parameter(torch.empty(num_heads, 4 * self.head_width, self.head_width))
        self.gate_bias = nn.Parameter(torch.empty(4, d_model))
        self.norm_weight = nn.Parameter(torch.empty(d_model))
        self.output = ResidualLinear(d_model, d_model, bias=False)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Start without recurrent weights, as the authors' code does, and forget little."""
        self.recurrent.zero_()
        self.gate_bias.zero_()
        self.gate_bias[2] = torch.linspace(*FORGETS_NOTHING_YET, self.head_width).repeat(self.num_heads)
        self.norm_weight.fill_(1.0)

    def no_weight_decay(self) -> Iterator[Tensor]:
        yield self.gate_bias

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        return self.project_output(self.read(self.of_tokens(x), find_document_starts(context)), x)

    def of_tokens(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L 4 H K"]:
        """Return what the tokens alone bring to candidates and gates, in float32 at least."""
        exact = at_least_float32(x.dtype)
        brought = self.input(x).to(exact).unflatten(-1, (4, -1)) + self.gate_bias.to(exact)
        y: Tensor = brought.unflatten(-1, (self.num_heads, -1))
        return y

    def read(
        self, of_tokens: Float[Tensor, "B L 4 H K"], document_starts: Bool[Tensor, "B L"] | None
    ) -> Float[Tensor, "B L H K"]:
        """Return the outputs of the cells."""
        with without_autocast(of_tokens):
            return slstm_sequence(of_tokens, self.recurrent.to(of_tokens.dtype), document_starts)

    def project_output(self, h: Float[Tensor, "B L H K"], x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        normed = F.layer_norm(h, (self.head_width,), eps=self.eps).flatten(2) * self.norm_weight.to(h.dtype)
        y: Tensor = self.output(normed.to(x.dtype))
        return y

    def gates(self, x: Float[Tensor, "B L D"], document_starts: Bool[Tensor, "B L"] | None) -> Float[Tensor, "4 B L D"]:
        """Return candidates, and gates before their nonlinearities, given the outputs of the tokens before."""
        of_tokens = self.of_tokens(x)
        h = F.pad(self.read(of_tokens, document_starts)[:, :-1], (0, 0, 0, 0, 1, 0))
        if document_starts is not None:
            h = h * ~document_starts[..., None, None]
        with without_autocast(h):
            by_head = torch.einsum("blhk,hjk->blhj", h, self.recurrent.to(h.dtype)).unflatten(-1, (4, -1))
        z, *gates = (of_tokens + by_head.transpose(2, 3)).flatten(3).unbind(2)
        return torch.stack((z.tanh(), *gates))

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B D L M"]:
        """Return the share of every candidate in a cell over its normaliser, channel by channel."""
        del causal
        document_starts = find_document_starts(context)
        _, i, f, _ = self.gates(x, document_starts).double()
        scores = (i - F.logsigmoid(f).cumsum(1)).mT[:, :, None]
        weights: Tensor = scores.masked_fill(~visible_pairs(i, document_starts), float("-inf")).softmax(-1)
        return weights.to(at_least_float32(x.dtype))

    def mixed(
        self, weights: Float[Tensor, "B D L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        z, _, _, o = self.gates(x, find_document_starts(context))
        with without_autocast(weights):
            h = o.sigmoid() * weighted_values(weights, z)
        return self.project_output(h.unflatten(-1, (self.num_heads, -1)), x)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> SlstmState:
        del max_length
        like = torch.zeros(batch_size, self.num_heads, self.head_width, device=device, dtype=at_least_float32(dtype))
        return SlstmState(states=torch.stack(CellStates.empty(like), 1))

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], SlstmState]:
        assert isinstance(state, SlstmState) and state.states is not None, "a state comes from initial_state"
        of_tokens, states, outputs = self.of_tokens(x), CellStates(*state.states.unbind(1)), []
        recurrent = self.recurrent.to(of_tokens.dtype)
        with without_autocast(of_tokens):
            for t, token in enumerate(of_tokens.unbind(1)):
                after, _, _ = next_states(token, recurrent, states)
                states = after if context.valid is None else after.where(context.valid[:, t], states)
                outputs.append(after.hidden)
        state.states, state.length = torch.stack(states, 1), state.length + x.shape[1]
        return self.project_output(torch.stack(outputs, 1), x), state

    def costs(self, query: CostContext) -> Costs:
        n, d = query.length, self.d_model
        return Costs.of(
            self,
            forward_flops=2 * n * d * (5 * d + 4 * self.head_width),
            state_elements=4 * d,
            activation_bytes=2 * n * d * query.bytes_per_element + 4 * n * (9 * d + 2 * self.num_heads),
        )
