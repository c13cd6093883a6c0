"""The delta rule, which replaces the memory's value at a key instead of adding to it (Yang et al. 2024,
https://arxiv.org/abs/2406.06484), with decay (Yang et al. 2024, https://arxiv.org/abs/2412.06464)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.component import CostQuery, Costs
from headtohead.components.fast_kernels import DELTA, GATED_DELTA, through_fla
from headtohead.components.linear_maps import ResidualLinear, ScoreLinear
from headtohead.components.mixers.attention.softmax_attention import equal_share, merge_heads, split_heads
from headtohead.components.mixers.convolution.short_conv import CausalConvolution
from headtohead.components.mixers.linear.matrix_memory import (
    ChunkedForm,
    MatrixMemory,
    MatrixMemoryState,
    MemoryInputs,
    MemoryShape,
)
from headtohead.components.norms import RmsScale
from headtohead.components.precision import at_least_float32
from headtohead.components.sequence_ops.chunked_recurrence import chunk_length
from headtohead.ranges import Amount

# How strongly heads forget before training, where a decay is exp(-strength step) and the token makes the step (Dao and
# Gu 2024, https://arxiv.org/abs/2405.21060).


LARGEST_STRENGTH = 16


def decay_strengths(num_heads: int) -> Float[Tensor, " H"]:
    """Return 1, 2, 3 ... as long as these are few, else evenly from 1 to 16: the paper's range, but with a slowest
    first head in every model, one with a single head included."""
    return torch.linspace(1.0, min(num_heads, LARGEST_STRENGTH), num_heads)


SLOWEST, FASTEST = 1e-3, 1e-1
"""The range of the initial steps that decays are multiplied by."""


class GatedDelta(MatrixMemory):
    """S_t = a_t (1 - b_t k_t k_t^T) S_(t-1) + b_t k_t v_t^T with keys and queries of unit length; the output is
    (norm(S_t^T q_t) * swish(x_t G)) O. Without `gate`, and so without a_t and G, it is DeltaNet."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        shape: MemoryShape = MemoryShape(value_ratio=2.0),
        gate: bool = True,
        output_gate: bool | None = None,
        conv: Amount = 4,
        negative_eigenvalues: bool = False,
        chunks: ChunkedForm = ChunkedForm(),
    ) -> None:
        super().__init__(chunks, GATED_DELTA if gate else DELTA)
        del causal, dropout  # one way always; no weights to drop
        width = equal_share(d_model, num_heads)
        self.d_model, self.num_heads, self.causal = d_model, num_heads, True
        self.key_width, self.value_width = shape.widths(width)
        self.has_gate = gate
        self.highest_rate = 2.0 if negative_eigenvalues else 1.0
        keys, values = num_heads * self.key_width, num_heads * self.value_width
        self.query = ScoreLinear(d_model, keys, bias=False)
        self.key = ScoreLinear(d_model, keys, bias=False)
        self.value = nn.Linear(d_model, values, bias=False)
        self.rate = nn.Linear(d_model, num_heads, bias=False)
        self.conv = CausalConvolution(2 * keys + values, taps=conv, bias=False) if conv else None
        self.decay = nn.Linear(d_model, num_heads, bias=False) if gate else None
        self.log_strength = nn.Parameter(torch.empty(num_heads)) if gate else None
        self.decay_bias = nn.Parameter(torch.empty(num_heads)) if gate else None
        has_output_gate = gate if output_gate is None else output_gate
        self.gate = nn.Linear(d_model, values, bias=False) if has_output_gate else None
        self.norm = RmsScale(self.value_width, eps=1e-5)
        self.output = ResidualLinear(values, d_model, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the decay rates head by head from 1 to 16 at most, and draw the step sizes, as in Mamba-2."""
        if self.log_strength is None or self.decay_bias is None:
            return
        with torch.no_grad():
            self.log_strength.copy_(decay_strengths(self.num_heads).log())
            step = self.decay_bias.uniform_(math.log(SLOWEST), math.log(FASTEST)).exp_()
            self.decay_bias.copy_(step + torch.log(-torch.expm1(-step)))  # softplus of it is the step

    def project(
        self,
        x: Float[Tensor, "B L D"],
        document_starts: Bool[Tensor, "B L"] | None = None,
        before: Float[Tensor, "B T E"] | None = None,
    ) -> MemoryInputs:
        mixed, seen = torch.cat((self.query(x), self.key(x), self.value(x)), dim=-1), None
        if self.conv is not None:
            seen = None if before is None else self.conv.next_tail(mixed, before)
            mixed = self.conv(mixed, document_starts, before)
        keys, values = self.num_heads * self.key_width, self.num_heads * self.value_width
        q, k, v = F.silu(mixed).split((keys, keys, values), dim=-1)
        q, k = (F.normalize(split_heads(part, self.key_width), dim=-1, eps=1e-6) for part in (q, k))
        rate = self.highest_rate * split_heads(self.rate(x).sigmoid(), 1)
        return MemoryInputs(
            q=q * self.key_width**-0.5,
            k=k,
            v=split_heads(v, self.value_width),
            log_decay=self._log_decay(x),
            rate=rate,
            reads=-rate * k,
            gate=None if self.gate is None else self.gate(x),
            seen=seen,
        )

    def _log_decay(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B H L 1"]:
        exact = at_least_float32(x.dtype)
        if self.decay is None or self.log_strength is None or self.decay_bias is None:
            return x.new_zeros(x.shape[0], self.num_heads, x.shape[1], 1, dtype=exact)
        step = F.softplus(self.decay(x).to(exact) + self.decay_bias)
        return split_heads(-self.log_strength.exp() * step, 1).to(exact)

    def emit(self, y: Float[Tensor, "B H L V"], parts: MemoryInputs) -> Float[Tensor, "B L D"]:
        y = merge_heads(self.norm(y))
        output: Tensor = self.output(y if parts.gate is None else y * F.silu(parts.gate))
        return output

    def through(
        self, kernel: Callable[..., Any], parts: MemoryInputs, document_starts: Bool[Tensor, "B L"] | None
    ) -> Float[Tensor, "B H L V"]:
        assert parts.rate is not None, "project makes it"
        kind = parts.v.dtype
        inputs = {"q": parts.q.to(kind), "k": parts.k.to(kind), "v": parts.v, "beta": parts.rate.to(kind).squeeze(-1)}
        if self.has_gate:
            inputs["g"] = parts.log_decay.squeeze(-1)
        return through_fla(kernel, inputs, document_starts, scale=1.0)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> MatrixMemoryState:
        del max_length
        tail = None if self.conv is None else self.conv.initial_tail(batch_size, device=device, dtype=dtype)
        return self.empty(batch_size, self.key_width, self.value_width, tail, device=device, dtype=dtype)

    def costs(self, query: CostQuery) -> Costs:
        """Return the costs as a recurrence: one product writes, one reads for the output, and, except for the first
        token, one reads what is to be replaced."""
        n, d, heads = query.length, self.d_model, self.num_heads
        keys, values = heads * self.key_width, heads * self.value_width
        memory, gates = keys * self.value_width, values if self.gate is not None else 0
        linears = d * (2 * keys + 2 * values + gates + (2 if self.has_gate else 1) * heads)
        own = Costs.of(
            self,
            forward_flops=2 * n * linears + 2 * (3 * n - 1) * memory,
            state_elements=memory,
            activation_bytes=self._saved_bytes(query, keys, values, memory),
        )
        if self.conv is None:
            return own
        conv = self.conv.costs(query)
        return own + Costs(0, 0, conv.forward_flops, conv.training_flops, conv.state_elements, conv.activation_bytes)

    def _saved_bytes(self, query: CostQuery, keys: int, values: int, memory: int) -> int:
        """Count what linear layers and gates read and give in the model's dtype; in whole chunks and in float32 what
        the recurrence reads, solves and gives, and its states."""
        n, heads, chunk = query.length, self.num_heads, chunk_length(query.length, self.chunk_size)
        chunks = -(-n // chunk)
        gates, decays = values if self.gate is not None else 0, heads if self.has_gate else 0
        own = n * (self.d_model + 4 * keys + 3 * values + 3 * gates + 7 * heads + 2 * decays) + 2 * decays
        exact = n * keys + chunks * chunk * (4 * keys + 3 * values + heads) + (chunks + 1) * memory
        return own * query.bytes_per_element + exact * max(4, query.bytes_per_element) + 4 * n * heads
