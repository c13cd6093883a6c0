"""Gated linear attention (Yang et al. 2023, https://arxiv.org/abs/2312.06635): linear attention that forgets, each
channel of a key at a rate of its own which every token chooses."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.costs import CostContext, Costs
from headtohead.components.fast_kernels import GLA, FlaFunction, call_fla
from headtohead.components.linear_maps import LinearMap, ResidualLinear, ScoreLinear
from headtohead.components.mixers.attention.softmax_attention import equal_share, merge_heads, split_heads
from headtohead.components.mixers.linear.matrix_memory import (
    ChunkedForm,
    MatrixMemory,
    MatrixMemoryState,
    MemoryInputs,
    MemoryShape,
)
from headtohead.components.norms import RmsScale
from headtohead.components.precision import at_least_float32
from headtohead.components.sequence_ops.chunked_recurrence import saved_elements
from headtohead.ranges import Positive, Width


class GatedLinearAttention(MatrixMemory):
    """S_t = diag(a_t) S_(t-1) + k_t v_t^T with a_t = sigmoid(x_t W1 W2 + b)^(1 / temperature); the output is
    (norm(S_t^T q_t) * swish(x_t G)) O."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        shape: MemoryShape = MemoryShape(key_ratio=0.5),
        gate_rank: Width = 16,
        temperature: Positive = 16.0,
        chunks: ChunkedForm = ChunkedForm(),
    ) -> None:
        super().__init__(chunks, GLA)
        del causal, dropout  # one way always; no weights to drop
        width = equal_share(d_model, num_heads)
        self.d_model, self.num_heads, self.causal, self.temperature = d_model, num_heads, True, temperature
        self.key_width, self.value_width = shape.widths(width)
        self.gate_rank = gate_rank
        keys, values = num_heads * self.key_width, num_heads * self.value_width
        self.query = ScoreLinear(d_model, keys, bias=False)
        self.key = ScoreLinear(d_model, keys, bias=False)
        self.value = LinearMap(d_model, values, bias=False)
        self.decay_down = LinearMap(d_model, gate_rank, bias=False)
        self.decay_up = LinearMap(gate_rank, keys)
        self.gate = LinearMap(d_model, values, bias=False)
        self.norm = RmsScale(self.value_width, eps=1e-5)
        self.output = ResidualLinear(values, d_model, bias=False)

    def project(
        self,
        x: Float[Tensor, "B L D"],
        document_starts: Bool[Tensor, "B L"] | None = None,
        before: Float[Tensor, "B T E"] | None = None,
    ) -> MemoryInputs:
        del document_starts, before  # no token sees another one directly
        forgotten = self.decay_up(self.decay_down(x))
        log_decay = F.logsigmoid(forgotten.to(at_least_float32(x.dtype))) / self.temperature
        return MemoryInputs(
            q=split_heads(self.query(x), self.key_width) * self.key_width**-0.5,
            k=split_heads(self.key(x), self.key_width),
            v=split_heads(self.value(x), self.value_width),
            log_decay=split_heads(log_decay, self.key_width),
            gate=self.gate(x),
        )

    def project_output(self, y: Float[Tensor, "B H L V"], parts: MemoryInputs) -> Float[Tensor, "B L D"]:
        assert parts.gate is not None, "project makes it"
        output: Tensor = self.output(merge_heads(self.norm(y)) * F.silu(parts.gate))
        return output

    def through(
        self, kernel: FlaFunction, parts: MemoryInputs, document_starts: Bool[Tensor, "B L"] | None
    ) -> Float[Tensor, "B H L V"]:
        inputs = {"q": parts.q, "k": parts.k, "v": parts.v, "g": parts.log_decay}
        return call_fla(kernel, inputs, document_starts, scale=1.0)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> MatrixMemoryState:
        del max_length
        return self.empty(batch_size, self.key_width, self.value_width, None, device=device, dtype=dtype)

    def costs(self, query: CostContext) -> Costs:
        """Return the costs as a recurrence: one product writes, one reads."""
        n, d, rank = query.length, self.d_model, self.gate_rank
        keys, values = self.num_heads * self.key_width, self.num_heads * self.value_width
        memory = keys * self.value_width
        return Costs.of(
            self,
            forward_flops=2 * n * (d * (2 * keys + 3 * values + rank) + rank * keys + 2 * memory),
            state_elements=memory,
            activation_bytes=self._saved_bytes(query, keys, values, memory),
        )

    def _saved_bytes(self, query: CostContext, keys: int, values: int, memory: int) -> int:
        """Count the projections' inputs and outputs, and what is made of them, in the model's dtype; in float32 the
        decays and the states of the recurrence."""
        n, states = query.length, saved_elements(query.length, self.chunk_size, memory=memory)
        own = n * (self.d_model + self.gate_rank + 2 * keys + 6 * values)
        exact = n * 3 * keys + states
        return own * query.bytes_per_element + exact * max(4, query.bytes_per_element) + 4 * n * self.num_heads
