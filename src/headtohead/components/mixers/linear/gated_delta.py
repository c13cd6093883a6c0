"""The delta rule, which replaces the memory's value at a key instead of adding to it (Yang et al. 2024,
https://arxiv.org/abs/2406.06484), with decay (Yang et al. 2024, https://arxiv.org/abs/2412.06464)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.costs import CostContext
from headtohead.components.fast_kernels import DELTA, GATED_DELTA, FlaFunction, call_fla
from headtohead.components.linear_maps import LinearMap
from headtohead.components.mixers.attention.softmax_attention import merge_heads, split_heads
from headtohead.components.mixers.linear.delta_rule import DeltaRule, DeltaShape, start_decays
from headtohead.components.mixers.linear.matrix_memory import ChunkedForm, MemoryInputs
from headtohead.components.precision import at_least_float32
from headtohead.ranges import Amount


class GatedDelta(DeltaRule):
    """S_t = a_t (1 - b_t k_t k_t^T) S_(t-1) + b_t k_t v_t^T with keys and queries of unit length; the output is
    (norm(S_t^T q_t) * swish(x_t G)) O. Without `gate`, and so without a_t and G, it is DeltaNet."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        shape: DeltaShape = DeltaShape(value_ratio=2.0),
        gate: bool = True,
        output_gate: bool | None = None,
        conv: Amount = 4,
        negative_eigenvalues: bool = False,
        chunks: ChunkedForm = ChunkedForm(),
    ) -> None:
        super().__init__(
            d_model,
            num_heads=num_heads,
            shape=shape,
            conv=conv,
            negative_eigenvalues=negative_eigenvalues,
            chunks=chunks,
            offer=GATED_DELTA if gate else DELTA,
        )
        del causal, dropout  # one way always; no weights to drop
        self.decay = LinearMap(d_model, self.num_heads, bias=False) if gate else None
        self.log_strength = nn.Parameter(torch.empty(self.num_heads)) if gate else None
        self.decay_bias = nn.Parameter(torch.empty(self.num_heads)) if gate else None
        has_output_gate = gate if output_gate is None else output_gate
        self.gate = LinearMap(d_model, self.num_heads * self.value_width, bias=False) if has_output_gate else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start the decays as in Mamba-2."""
        if self.log_strength is not None and self.decay_bias is not None:
            start_decays(self.log_strength, self.decay_bias)

    def log_decay(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B H L 1"]:
        exact = at_least_float32(x.dtype)
        if self.decay is None or self.log_strength is None or self.decay_bias is None:
            return x.new_zeros(x.shape[0], self.num_heads, x.shape[1], 1, dtype=exact)
        step = F.softplus(self.decay(x).to(exact) + self.decay_bias)
        return split_heads(-self.log_strength.exp() * step, 1).to(exact)

    def output_gate(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L E"] | None:
        return None if self.gate is None else self.gate(x)

    def project_output(self, y: Float[Tensor, "B H L V"], parts: MemoryInputs) -> Float[Tensor, "B L D"]:
        y = merge_heads(self.norm(y))
        output: Tensor = self.output(y if parts.gate is None else y * F.silu(parts.gate))
        return output

    def through(
        self, kernel: FlaFunction, parts: MemoryInputs, document_starts: Bool[Tensor, "B L"] | None
    ) -> Float[Tensor, "B H L V"]:
        assert parts.rate is not None, "project makes it"
        kind = parts.v.dtype
        inputs = {"q": parts.q.to(kind), "k": parts.k.to(kind), "v": parts.v, "beta": parts.rate.to(kind).squeeze(-1)}
        if self.decay is not None:
            inputs["g"] = parts.log_decay.squeeze(-1)
        return call_fla(kernel, inputs, document_starts, scale=1.0)

    def saved_bytes(self, query: CostContext, memory: int) -> int:
        """Count also the decays, one for each write of a head, and the gates."""
        n, heads, writes = query.length, self.num_heads, self.num_writes
        decays, gates = heads if self.decay is not None else 0, 3 * heads * self.value_width if self.gate else 0
        own = n * (gates + 2 * decays) + 2 * decays
        exact = n * writes * heads
        saved = own * query.bytes_per_element + exact * max(4, query.bytes_per_element)
        return super().saved_bytes(query, memory) + saved
