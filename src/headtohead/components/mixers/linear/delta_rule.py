"""Mixers with a delta rule share this base: queries and keys are convolved and of unit length, and values replace what
the memory holds at a key (Yang et al. 2024, https://arxiv.org/abs/2406.06484)."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.costs import CostQuery, Costs
from headtohead.components.fast_kernels import Offer
from headtohead.components.linear_maps import ResidualLinear, ScoreLinear
from headtohead.components.mixers.attention.softmax_attention import equal_share, split_heads
from headtohead.components.mixers.convolution.short_conv import CausalConvolution
from headtohead.components.mixers.linear.matrix_memory import (
    ChunkedForm,
    MatrixMemory,
    MatrixMemoryState,
    MemoryInputs,
    MemoryShape,
)
from headtohead.components.norms import RmsScale
from headtohead.components.sequence_ops.chunked_recurrence import chunk_length

# How strongly heads forget before training, where a decay is exp(-strength step) and the token makes the step (Dao and
# Gu 2024, https://arxiv.org/abs/2405.21060).


LARGEST_STRENGTH = 16


def decay_strengths(num_heads: int) -> Float[Tensor, " H"]:
    """Return 1, 2, 3 ... as long as these are few, else evenly from 1 to 16: the paper's range, but with a slowest
    first head in every model, one with a single head included."""
    return torch.linspace(1.0, min(num_heads, LARGEST_STRENGTH), num_heads)


SLOWEST, FASTEST = 1e-3, 1e-1
"""The range of the initial steps that decays are multiplied by."""


@torch.no_grad()
def start_decays(log_strength: Tensor, decay_bias: Tensor) -> None:
    """Set strengths head by head from 1 to 16 at most, and draw the step sizes, as in Mamba-2."""
    log_strength.copy_(decay_strengths(len(log_strength)).log())
    step = decay_bias.uniform_(math.log(SLOWEST), math.log(FASTEST)).exp_()
    decay_bias.copy_(step + torch.log(-torch.expm1(-step)))  # softplus of it is the step


class DeltaRule(MatrixMemory):
    """S_t = A_t (1 - b_t k_t k_t^T) S_(t-1) + b_t k_t v_t^T; subclasses make the decays A and the gates of the
    output."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        shape: MemoryShape,
        conv: int,
        negative_eigenvalues: bool,
        chunks: ChunkedForm,
        offer: Offer,
    ) -> None:
        super().__init__(chunks, offer)
        self.d_model, self.num_heads, self.causal = d_model, num_heads, True
        self.key_width, self.value_width = shape.widths(equal_share(d_model, num_heads))
        self.num_writes, self.highest_rate = shape.num_writes, 2.0 if negative_eigenvalues else 1.0
        keys, values = num_heads * self.key_width, num_heads * self.value_width
        self.widths = keys, self.num_writes * keys, self.num_writes * values
        self.query = ScoreLinear(d_model, keys, bias=False)
        self.key = ScoreLinear(d_model, self.num_writes * keys, bias=False)
        self.value = nn.Linear(d_model, self.num_writes * values, bias=False)
        self.rate = nn.Linear(d_model, num_heads * self.num_writes, bias=False)
        self.conv = CausalConvolution(sum(self.widths), taps=conv, bias=False) if conv else None
        self.norm = RmsScale(self.value_width, eps=1e-5)
        self.output = ResidualLinear(values, d_model, bias=False)

    @abstractmethod
    def log_decay(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B H L #K"]:
        """Return the logarithms of the decays, in float32 at least."""

    @abstractmethod
    def output_gate(self, x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L E"] | None:
        """Return the gate of the output before its nonlinearity; None where there is none."""

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
        parts, writes = F.silu(mixed).split(self.widths, dim=-1), self.num_writes
        q, k, v = (
            split_heads(part, part.shape[-1] // self.num_heads).unflatten(-1, (count, -1))
            for part, count in zip(parts, (1, writes, writes), strict=True)
        )
        rate = self.highest_rate * split_heads(self.rate(x).sigmoid(), writes)
        k = _of_unit_length(k)
        return MemoryInputs(
            q=_of_unit_length(q).flatten(-2) * self.key_width**-0.5,
            k=k.flatten(-2),
            v=v.flatten(-2),
            log_decay=self.log_decay(x),
            rate=rate,
            reads=(-rate[..., None] * k).flatten(-2),
            gate=self.output_gate(x),
            seen=seen,
        )

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> MatrixMemoryState:
        del max_length
        tail = None if self.conv is None else self.conv.initial_tail(batch_size, device=device, dtype=dtype)
        return self.empty(batch_size, self.key_width, self.value_width, tail, device=device, dtype=dtype)

    def costs(self, query: CostQuery) -> Costs:
        """Return the costs as a recurrence: one product writes, one reads for the output, and, except for the first
        write, one reads what is to be replaced."""
        n, memory = query.length, self.num_heads * self.key_width * self.value_width
        linears = sum(part.weight.numel() for part in self.modules() if isinstance(part, nn.Linear))
        own = Costs.of(
            self,
            forward_flops=2 * n * linears + 2 * (2 * n * self.num_writes + n - 1) * memory,
            state_elements=memory,
            activation_bytes=self.saved_bytes(query, memory),
        )
        if self.conv is None:
            return own
        conv = self.conv.costs(query)
        return own + Costs(0, 0, conv.forward_flops, conv.training_flops, conv.state_elements, conv.activation_bytes)

    def saved_bytes(self, query: CostQuery, memory: int) -> int:
        """Count what linear layers and gates read and give in the model's dtype; in whole chunks and in float32 what
        the recurrence reads, solves and gives, and its states."""
        n, heads, writes = query.length, self.num_heads, self.num_writes
        queries, keys, values = self.widths
        chunk = chunk_length(n * writes, self.chunk_size)
        chunks = -(-n * writes // chunk)
        copied = values if writes > 1 else 0
        own = n * (self.d_model + 2 * (queries + keys + values) + values // writes + copied)
        own += n * heads * (4 * writes + 1)
        exact = n * keys + chunks * chunk * (4 * keys + 3 * values) // writes + (chunks + 1) * memory
        return own * query.bytes_per_element + exact * max(4, query.bytes_per_element) + 4 * n * heads


def _of_unit_length(x: Float[Tensor, "*any K"]) -> Float[Tensor, "*any K"]:
    y: Tensor = x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()
    return y
