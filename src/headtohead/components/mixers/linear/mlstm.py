"""The LSTM with a matrix for its memory, which can be trained in parallel: mLSTM (Beck et al. 2024,
https://arxiv.org/abs/2405.04517).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.attention_maps import HasAttentionMaps
from headtohead.components.component import Context, Mixer, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import LinearMap, ResidualLinear, ScoreLinear
from headtohead.components.mixers.attention.softmax_attention import equal_share, merge_heads, split_heads
from headtohead.components.precision import at_least_float32, without_autocast
from headtohead.components.sequence_ops.chunked_decay import (
    check_chunk_size,
    decay_matrix,
    decayed_sums,
    padded_length,
)
from headtohead.components.sequence_ops.ragged_rows import find_document_starts
from headtohead.ranges import Positive, Width

FORGETS_NOTHING_YET = 3.0, 6.0
"""Biases of the forget gates at the start, from the first head to the last."""
LARGEST_EXPONENT = 80.0
"""Beyond it float32 ends."""


@dataclass
class MlstmState(State):
    """Memory and normaliser (its last column), both divided by exp(scale)."""

    memory: Float[Tensor, "B H K P"] | None = None
    scale: Float[Tensor, "B H"] | None = None


@dataclass(frozen=True)
class MlstmGates:
    """The gates of every head and token, scaled such that no exponent is above 0: m_t = max(log f_t + m_(t-1), i_t) is
    subtracted."""

    input: Float[Tensor, "B H L"]
    """exp(i_t - m_t)"""
    log_forget: Float[Tensor, "B H L"]
    """log f_t + m_(t-1) - m_t"""
    scale: Float[Tensor, "B H L"]
    """m_t"""


class Mlstm(Mixer, HasAttentionMaps):
    """C_t = f_t C_(t-1) + i_t v_t k_t^T and n_t = f_t n_(t-1) + i_t k_t; h_t = C_t q_t / max(|n_t q_t|, 1).

    i is an exponential and f a sigmoid, one number each per head and token. Heads are normed each by itself, then meet
    the output gate.
    """

    sums_to_one = False
    reads_one_way: ClassVar[bool] = True

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        bias: bool = False,
        eps: Positive = 1e-5,
        chunk_size: Width = 64,
    ) -> None:
        super().__init__()
        del causal, dropout  # it reads from left to right, and has no weights to drop
        check_chunk_size(chunk_size)
        self.causal, self.d_model, self.num_heads = True, d_model, num_heads
        self.head_width, self.eps, self.chunk_size = equal_share(d_model, num_heads), eps, chunk_size
        self.query = ScoreLinear(d_model, d_model, bias=bias)
        self.key = ScoreLinear(d_model, d_model, bias=bias)
        self.value = LinearMap(d_model, d_model, bias=bias)
        self.gate_weight = nn.Parameter(torch.empty(2 * num_heads, d_model))
        self.input_bias = nn.Parameter(torch.empty(num_heads))
        self.forget_bias = nn.Parameter(torch.empty(num_heads))
        self.output_gate = LinearMap(d_model, d_model, bias=bias)
        self.norm_weight = nn.Parameter(torch.empty(d_model))
        self.output = ResidualLinear(d_model, d_model, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start as the authors' code does: gates ignore tokens at first, so that no initialisation makes heads
        forget."""
        nn.init.zeros_(self.gate_weight)
        nn.init.zeros_(self.input_bias)
        nn.init.ones_(self.norm_weight)
        with torch.no_grad():
            self.forget_bias.copy_(torch.linspace(*FORGETS_NOTHING_YET, self.num_heads))

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        q, k, v = self.project(x)
        document_starts = find_document_starts(context)
        gates = self.open_gates(x, document_starts)
        sums, _ = self.sums(
            q, k * gates.input[..., None], with_ones(v), gates.log_forget, document_starts=document_starts
        )
        return self.gated(normalised(sums, gates), x)

    def project(self, x: Float[Tensor, "B L D"]) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys, in float32 at least; and values."""
        exact = at_least_float32(x.dtype)
        q, k, v = (split_heads(part(x), self.head_width) for part in (self.query, self.key, self.value))
        return q.to(exact), k.to(exact) * self.head_width**-0.5, v

    def open_gates(
        self,
        x: Float[Tensor, "B L D"],
        document_starts: Bool[Tensor, "B L"] | None = None,
        valid: Bool[Tensor, "B L"] | None = None,
        scale: Float[Tensor, "B H"] | None = None,
    ) -> MlstmGates:
        """Compute the gates; the subtracted scale cancels between numerator and denominator and so needs no
        gradient."""
        exact = at_least_float32(x.dtype)
        with without_autocast(x):
            i, f = F.linear(x.to(exact), self.gate_weight.to(exact)).mT.chunk(2, dim=1)
        i = i + self.input_bias[:, None].to(exact)
        log_f = F.logsigmoid(f + self.forget_bias[:, None].to(exact))
        if valid is not None:  # padding adds nothing, and nothing is forgotten over it
            i, log_f = i.masked_fill(~valid[:, None], float("-inf")), log_f.masked_fill(~valid[:, None], 0.0)
        unit, change = _unit(i.detach(), log_f.detach(), document_starts, scale)
        return MlstmGates((i - unit).exp().to(exact), (log_f + change).to(exact), unit.to(exact))

    def sums(
        self,
        q: Float[Tensor, "B H L K"],
        k: Float[Tensor, "B H L K"],
        v: Float[Tensor, "B H L P"],
        log_decay: Float[Tensor, "#B #H #L"],
        *,
        document_starts: Bool[Tensor, "B L"] | None = None,
        state: Float[Tensor, "B H K P"] | None = None,
    ) -> tuple[Float[Tensor, "B H L P"], Float[Tensor, "B H K P"]]:
        return decayed_sums(q, k, v, log_decay, state=state, starts=document_starts, chunk_size=self.chunk_size)

    def gated(self, h: Float[Tensor, "B H L K"], x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        normed = merge_heads(F.layer_norm(h, (self.head_width,), eps=self.eps))
        gate = self.output_gate(x).sigmoid()
        y: Tensor = self.output(gate * (normed * self.norm_weight.to(normed.dtype)).to(gate.dtype))
        return y

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """Return the only map it has, whatever `causal` is."""
        del causal
        q, k, _ = self.project(x)
        document_starts = find_document_starts(context)
        gates = self.open_gates(x, document_starts)
        with without_autocast(q):
            weights = (
                q @ (k * gates.input[..., None]).mT * decay_matrix(gates.log_forget, document_starts, x.shape[1], q)
            )
        return normalised(torch.cat((weights, weights.sum(-1, keepdim=True)), dim=-1), gates)

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        del context
        _, _, v = self.project(x)
        with without_autocast(weights):
            h = weights @ v.to(weights.dtype)
        return self.gated(h, x)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> MlstmState:
        del max_length
        exact = at_least_float32(dtype)
        memory = torch.zeros(
            batch_size, self.num_heads, self.head_width, self.head_width + 1, device=device, dtype=exact
        )
        return MlstmState(0, memory, torch.zeros(batch_size, self.num_heads, device=device, dtype=exact))

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], MlstmState]:
        assert isinstance(state, MlstmState), "a state comes from initial_state"
        q, k, v = self.project(x)
        gates = self.open_gates(x, valid=context.valid, scale=state.scale)
        sums, state.memory = self.sums(
            q, k * gates.input[..., None], with_ones(v), gates.log_forget, state=state.memory
        )
        state.scale = gates.scale[..., -1]
        state.length += x.shape[1]
        return self.gated(normalised(sums, gates), x), state

    def costs(self, query: CostContext) -> Costs:
        """Return the costs as a recurrence: one product makes the memory, one reads it, the normaliser included."""
        n, d, heads = query.length, self.d_model, self.num_heads
        memory = d * (self.head_width + 1)
        rows, chunks = padded_length(n, self.chunk_size)
        exact = rows * (4 * d + 3 * heads) + chunks * memory + n * (4 * d + 10 * heads)
        return Costs.of(
            self,
            forward_flops=10 * n * d * d + 4 * n * d * heads + 4 * n * memory,
            state_elements=memory + heads,
            activation_bytes=3 * n * d * query.bytes_per_element + 4 * exact,
        )


@torch.no_grad()
def _unit(
    i: Float[Tensor, "B H L"],
    log_f: Float[Tensor, "B H L"],
    document_starts: Bool[Tensor, "B L"] | None,
    scale: Float[Tensor, "B H"] | None,
) -> tuple[Float[Tensor, "B H L"], Float[Tensor, "B H L"]]:
    """Return m_t, and m_(t-1) - m_t or the value that makes log f_t zero where a document starts, both in float64."""
    forgotten = log_f.cumsum(-1, dtype=torch.float64)
    first = forgotten.new_zeros(i.shape[:2]) if scale is None else scale.to(forgotten.dtype)
    values = torch.cat((first[..., None], i - forgotten), dim=-1)
    m = _largest_so_far(values, document_starts) + F.pad(forgotten, (1, 0))
    change = m[..., :-1] - m[..., 1:]
    if document_starts is not None:
        change = torch.where(document_starts[:, None], -log_f.to(m.dtype), change)
    return m[..., 1:], change


def _largest_so_far(
    values: Float[Tensor, "B H L1"], document_starts: Bool[Tensor, "B L"] | None
) -> Float[Tensor, "B H L1"]:
    """Return the running maximum of each document: later documents are lifted above all earlier ones meanwhile."""
    if document_starts is None:
        return values.cummax(-1).values
    lift = 2.0 * values.masked_fill(values.isinf(), 0.0).abs().max() + 1.0
    lifts = lift * F.pad(document_starts, (1, 0)).cumsum(-1)[:, None]
    return (values + lifts).cummax(-1).values - lifts


def with_ones(v: Float[Tensor, "B H L K"]) -> Float[Tensor, "B H L P"]:
    """Return the values with a column of ones whose sums are the normaliser's."""
    return F.pad(v, (0, 1), value=1.0)


def normalised(sums: Float[Tensor, "B H L P"], gates: MlstmGates) -> Float[Tensor, "B H L K"]:
    """Divide by the normaliser, at least 1, which is exp(-m) in the unit of the gates."""
    one = (-gates.scale).clamp(max=LARGEST_EXPONENT).exp()
    return sums[..., :-1] / torch.maximum(sums[..., -1].abs(), one)[..., None]
