"""Mixers with a delta rule share this base: queries and keys are convolved and of unit length, and values replace what
the memory holds at a key (Yang et al. 2024, https://arxiv.org/abs/2406.06484)."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.costs import CostContext, Costs
from headtohead.components.fast_kernels import Offer
from headtohead.components.linear_maps import LinearMap, ResidualLinear, ScoreLinear
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
from headtohead.components.sequence_ops.chunked_recurrence import saved_elements
from headtohead.errors import UsageError
from headtohead.ranges import Positive, Width

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


@dataclass(frozen=True)
class DeltaShape(MemoryShape):
    """The heads of a delta rule, also where they are not those of the model: how many memories there are, how many
    heads make their queries and keys, how wide both sides are, and the norm of what is read."""

    num_value_heads: Width | None = None
    num_key_heads: Width | None = None
    key_width: Width | None = None
    value_width: Width | None = None
    norm_eps: Positive = 1e-5
    """Epsilon of the RMS norm of what each head reads."""

    def numbers(self, num_heads: int) -> tuple[int, int]:
        """Return the numbers of memories and of heads that make queries and keys."""
        values = num_heads if self.num_value_heads is None else self.num_value_heads
        keys = values if self.num_key_heads is None else self.num_key_heads
        if values % keys:
            raise UsageError(f"num_key_heads={keys} does not divide the {values} heads of values: choose a divisor")
        return values, keys

    def sides(self, d_model: int, num_heads: int) -> tuple[int, int]:
        """Return the widths of keys and of values."""
        if self.key_width is not None and self.value_width is not None:
            return self.key_width, self.value_width
        keys, values = self.widths(equal_share(d_model, num_heads))
        return self.key_width or keys, self.value_width or values


class DeltaRule(MatrixMemory):
    """S_t = A_t (1 - b_t k_t k_t^T) S_(t-1) + b_t k_t v_t^T; subclasses make the decays A and the gates of the
    output."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        shape: DeltaShape,
        conv: int,
        negative_eigenvalues: bool,
        chunks: ChunkedForm,
        offer: Offer,
    ) -> None:
        super().__init__(chunks, offer)
        self.d_model, self.causal = d_model, True
        self.num_heads, self.num_key_heads = shape.numbers(num_heads)
        self.key_width, self.value_width = shape.sides(d_model, num_heads)
        self.num_writes, self.highest_rate = shape.num_writes, 2.0 if negative_eigenvalues else 1.0
        keys, values = self.num_key_heads * self.key_width, self.num_heads * self.value_width
        self.widths = keys, self.num_writes * keys, self.num_writes * values
        self.query = ScoreLinear(d_model, keys, bias=False)
        self.key = ScoreLinear(d_model, self.num_writes * keys, bias=False)
        self.value = LinearMap(d_model, self.num_writes * values, bias=False)
        self.rate = LinearMap(d_model, self.num_heads * self.num_writes, bias=False)
        self.conv = CausalConvolution(sum(self.widths), taps=conv, bias=False) if conv else None
        self.norm = RmsScale(self.value_width, eps=shape.norm_eps)
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
        widths = self.key_width, writes * self.key_width, writes * self.value_width
        q, k, v = (
            split_heads(part, width).unflatten(-1, (count, -1))
            for part, width, count in zip(parts, widths, (1, writes, writes), strict=True)
        )
        rate = self.highest_rate * split_heads(self.rate(x).sigmoid(), writes)
        q, k = self._shared(_of_unit_length(q) * self.key_width**-0.5), self._shared(_of_unit_length(k))
        return MemoryInputs(
            q=q.flatten(-2),
            k=k.flatten(-2),
            v=v.flatten(-2),
            log_decay=self.log_decay(x),
            rate=rate,
            reads=(-rate[..., None] * k).flatten(-2),
            gate=self.output_gate(x),
            seen=seen,
        )

    def _shared(self, x: Float[Tensor, "B G L N K"]) -> Float[Tensor, "B H L N K"]:
        """Return queries or keys for every head that has a memory."""
        groups = self.num_heads // self.num_key_heads
        return x if groups == 1 else x.repeat_interleave(groups, dim=1)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> MatrixMemoryState:
        del max_length
        tail = None if self.conv is None else self.conv.initial_tail(batch_size, device=device, dtype=dtype)
        return self.empty(batch_size, self.key_width, self.value_width, tail, device=device, dtype=dtype)

    def costs(self, query: CostContext) -> Costs:
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

    def saved_bytes(self, query: CostContext, memory: int) -> int:
        """Count what linear layers, gates and the recurrence read and give in the model's dtype; in float32 what it
        solves, and its states."""
        n, heads, writes = query.length, self.num_heads, self.num_writes
        queries, keys, values = self.widths
        shared, of_all = self.num_key_heads, writes * heads * self.key_width
        own_keys = of_all if shared == heads else 0
        copied = own_keys + values if writes > 1 else 0
        read = 2 * (of_all + values)
        own = n * (self.d_model + 2 * (queries + keys + values) + values // writes + copied + read)
        own += n * (3 * writes * heads + (writes + 1) * shared)
        solved = (of_all + values) // writes
        exact = n * of_all + saved_elements(n * writes, self.chunk_size, memory=memory, solved=solved)
        return own * query.bytes_per_element + exact * max(4, query.bytes_per_element) + 4 * n * heads


def _of_unit_length(x: Float[Tensor, "*any K"]) -> Float[Tensor, "*any K"]:
    y: Tensor = x * (x.square().sum(-1, keepdim=True) + 1e-6).rsqrt()
    return y
