"""HGRN2 (Qin et al. 2024, https://arxiv.org/abs/2404.07904): gated linear attention whose keys are what its gates
forget. A mixer by itself, it learns the floor under its gates, which the paper sums over layers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

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


class Hgrn2(MatrixMemory):
    """S_t = diag(f_t) S_(t-1) + (1 - f_t) i_t^T with f_t = c + (1 - c) sigmoid(x_t W + b); the output is
    norm(S_t^T swish(x_t Q)) O, normed over all heads."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        shape: MemoryShape = MemoryShape(),
        chunks: ChunkedForm = ChunkedForm(),
    ) -> None:
        super().__init__(chunks, GLA)
        del causal, dropout  # one way always; no weights to drop
        self.d_model, self.num_heads, self.causal = d_model, num_heads, True
        self.key_width, self.value_width = shape.widths(equal_share(d_model, num_heads))
        keys, values = num_heads * self.key_width, num_heads * self.value_width
        self.query = ScoreLinear(d_model, keys, bias=False)
        self.forget = LinearMap(d_model, keys)
        self.value = LinearMap(d_model, values, bias=False)
        self.floor = nn.Parameter(torch.empty(keys))
        self.norm = RmsScale(values, eps=1e-5)
        self.output = ResidualLinear(values, d_model, bias=False)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Spread the floors evenly over the channels of every head, as the paper spreads them over layers."""
        shares = (torch.arange(self.key_width) + 0.5) / self.key_width
        self.floor.copy_(shares.logit().repeat(self.num_heads))

    def project(
        self,
        x: Float[Tensor, "B L D"],
        document_starts: Bool[Tensor, "B L"] | None = None,
        before: Float[Tensor, "B T E"] | None = None,
    ) -> MemoryInputs:
        del document_starts, before  # no token sees another one directly
        exact = at_least_float32(x.dtype)
        let_in, floor = self.forget(x).to(exact), self.floor.to(exact)
        log_key = F.logsigmoid(-floor) + F.logsigmoid(-let_in)
        return MemoryInputs(
            q=split_heads(F.silu(self.query(x)), self.key_width),
            k=split_heads(log_key.exp(), self.key_width),
            v=split_heads(self.value(x), self.value_width),
            log_decay=split_heads((-torch.expm1(log_key)).log(), self.key_width),  # f = 1 - k without cancellation
        )

    def project_output(self, y: Float[Tensor, "B H L V"], parts: MemoryInputs) -> Float[Tensor, "B L D"]:
        del parts
        output: Tensor = self.output(self.norm(merge_heads(y)))
        return output

    def through(
        self, kernel: FlaFunction, parts: MemoryInputs, document_starts: Bool[Tensor, "B L"] | None
    ) -> Float[Tensor, "B H L V"]:
        inputs = {"q": parts.q, "k": parts.k.to(parts.v.dtype), "v": parts.v, "g": parts.log_decay}
        return call_fla(kernel, inputs, document_starts, scale=1.0)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> MatrixMemoryState:
        del max_length
        return self.empty(batch_size, self.key_width, self.value_width, None, device=device, dtype=dtype)

    def costs(self, query: CostContext) -> Costs:
        """Return the costs as a recurrence: one product writes, one reads."""
        n, d = query.length, self.d_model
        keys, values = self.num_heads * self.key_width, self.num_heads * self.value_width
        memory = keys * self.value_width
        return Costs.of(
            self,
            forward_flops=2 * n * (2 * d * (keys + values) + 2 * memory),
            state_elements=memory,
            activation_bytes=self._saved_bytes(query, keys, values, memory),
        )

    def _saved_bytes(self, query: CostContext, keys: int, values: int, memory: int) -> int:
        """Count the projections' inputs and outputs in the model's dtype; in float32 what the gates and the recurrence
        read, and its states."""
        n, states = query.length, saved_elements(query.length, self.chunk_size, memory=memory)
        own = n * (self.d_model + 2 * keys + 3 * values)
        exact = (6 * n + 2) * keys + states
        return own * query.bytes_per_element + exact * max(4, query.bytes_per_element) + 4 * n
