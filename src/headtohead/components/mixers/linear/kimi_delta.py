"""Kimi delta attention (Kimi Team 2025, https://arxiv.org/abs/2510.26692): a gated delta rule in which every channel of
a key decays at a rate of its own."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.costs import CostContext
from headtohead.components.fast_kernels import KIMI_DELTA, FlaFunction, call_fla
from headtohead.components.linear_maps import LinearMap
from headtohead.components.mixers.attention.softmax_attention import merge_heads, split_heads
from headtohead.components.mixers.linear.delta_rule import DeltaRule, DeltaShape, start_decays
from headtohead.components.mixers.linear.matrix_memory import ChunkedForm, MemoryInputs
from headtohead.components.precision import at_least_float32
from headtohead.ranges import Amount, Width


class KimiDelta(DeltaRule):
    """S_t = (1 - b_t k_t k_t^T) diag(a_t) S_(t-1) + b_t k_t v_t^T; the output is
    (norm(S_t^T q_t) * sigmoid(x_t G1 G2)) O, and a_t is made through a narrow map too."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        shape: DeltaShape = DeltaShape(),
        rank: Width | None = None,
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
            offer=KIMI_DELTA,
        )
        del causal, dropout  # one way always; no weights to drop
        self.rank = self.key_width if rank is None else rank
        keys, values = self.num_heads * self.key_width, self.num_heads * self.value_width
        self.decay_down = LinearMap(d_model, self.rank, bias=False)
        self.decay_up = LinearMap(self.rank, keys, bias=False)
        self.gate_down = LinearMap(d_model, self.rank, bias=False)
        self.gate_up = LinearMap(self.rank, values, bias=False)
        self.log_strength = nn.Parameter(torch.empty(self.num_heads))
        self.decay_bias = nn.Parameter(torch.empty(keys))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start the decays as in Mamba-2, with a step for every channel."""
        start_decays(self.log_strength, self.decay_bias)

    def log_decay(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B H L K"]:
        exact = at_least_float32(x.dtype)
        step = F.softplus(self.decay_up(self.decay_down(x)).to(exact) + self.decay_bias.to(exact))
        return -self.log_strength.to(exact).exp()[:, None, None] * split_heads(step, self.key_width)

    def output_gate(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L E"]:
        gate: Tensor = self.gate_up(self.gate_down(x))
        return gate

    def project_output(self, y: Float[Tensor, "B H L V"], parts: MemoryInputs) -> Float[Tensor, "B L D"]:
        assert parts.gate is not None, "project makes it"
        output: Tensor = self.output(merge_heads(self.norm(y)) * parts.gate.sigmoid())
        return output

    def through(
        self, kernel: FlaFunction, parts: MemoryInputs, document_starts: Bool[Tensor, "B L"] | None
    ) -> Float[Tensor, "B H L V"]:
        assert parts.rate is not None, "project makes it"
        kind = parts.v.dtype
        inputs = {"q": parts.q.to(kind), "k": parts.k.to(kind), "v": parts.v, "beta": parts.rate.to(kind).squeeze(-1)}
        return call_fla(kernel, {**inputs, "g": parts.log_decay}, document_starts, scale=1.0)

    def saved_bytes(self, query: CostContext, memory: int) -> int:
        """Count also the decays, and the gates, with the narrow maps that they go through."""
        n, keys, values = query.length, self.num_heads * self.key_width, self.num_heads * self.value_width
        own = n * (2 * values + 2 * self.rank)
        exact = 2 * n * keys + 2 * self.num_heads + n * keys
        saved = own * query.bytes_per_element + exact * max(4, query.bytes_per_element)
        return super().saved_bytes(query, memory) + saved
