"""Retention: attention without softmax whose weights decay with distance, at a rate of its own in every head
(Sun et al. 2023, https://arxiv.org/abs/2307.08621).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from headtohead.components.attention_maps import HasAttentionMaps
from headtohead.components.component import Context, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.fast_kernels import SIMPLE_GLA, Accelerated, FastKernel, FlaKernel, call_fla
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
from headtohead.errors import UsageError
from headtohead.ranges import Positive, Width


@dataclass
class RetentionState(State):
    """sum_s decay^(t-s) k_s^T v_s over the tokens read so far."""

    sums: Float[Tensor, "B H K P"] | None = None


class Retention(Accelerated, HasAttentionMaps):
    """(swish(x W_g) * norm(sum_s decay^(t-s) (q_t k_s) v_s)) W_o, with queries and keys rotated by their positions.

    The norm is by head and scale-invariant, so the paper's three divisions of the weights, which tame half precision,
    change nothing but the meaning of eps; sums are made in float32 here.
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
        value_factor: Width = 2,
        eps: Positive = 1e-6,
        chunk_size: Width = 64,
        kernel: FlaKernel = "auto",
    ) -> None:
        super().__init__()
        del causal, dropout  # it reads from left to right, and has no weights to drop
        check_chunk_size(chunk_size)
        self.fast = FastKernel(kernel, SIMPLE_GLA)
        width = equal_share(d_model, num_heads)
        if width % 2:
            raise UsageError(
                f"num_heads={num_heads} gives heads of width {width}, and retention turns numbers in pairs: choose "
                f"num_heads such that d_model={d_model} / num_heads is even"
            )
        self.causal, self.d_model, self.num_heads, self.head_width = True, d_model, num_heads, width
        self.value_width, self.eps, self.chunk_size = value_factor * width, eps, chunk_size
        inner = value_factor * d_model
        self.query = ScoreLinear(d_model, d_model, bias=False)
        self.key = ScoreLinear(d_model, d_model, bias=False)
        self.value = LinearMap(d_model, inner, bias=False)
        self.gate = LinearMap(d_model, inner, bias=False)
        self.output = ResidualLinear(inner, d_model, bias=False)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        q, k, v = self.project(x, context)
        log_decay, document_starts = self.log_decay(q), find_document_starts(context)
        if (kernel := self.fast.function(v)) is not None:
            inputs = {"q": q.to(v.dtype), "k": k.to(v.dtype), "v": v, "g": log_decay.expand(v.shape[:3])}
            return self.gated(call_fla(kernel, inputs, document_starts, scale=1.0).to(q.dtype), x)
        y, _ = self.sums(q, k, v, log_decay, document_starts=document_starts)
        return self.gated(y, x)

    def project(self, x: Float[Tensor, "B L D"], context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys rotated by their positions, in float32 at least; and values."""
        q, k, v = self.query(x), self.key(x), self.value(x)
        positions = torch.arange(x.shape[1], device=x.device)[None] if context.positions is None else context.positions
        exact = at_least_float32(x.dtype)
        rates = 10000.0 ** -torch.linspace(0, 1, self.head_width // 2, device=x.device, dtype=exact)
        angles = (positions[..., None] * rates)[:, None]
        turn = angles.cos(), angles.sin()
        q, k = (_turned(split_heads(t, self.head_width).to(exact), *turn) for t in (q, k))
        return q, k * self.head_width**-0.5, split_heads(v, self.value_width)

    def log_decay(self, like: Tensor) -> Float[Tensor, "1 H 1"]:
        """Return the log decays, from 31/32 per token in the first head, halving the loss from head to head."""
        lost = torch.exp2(-5.0 - torch.arange(self.num_heads, device=like.device, dtype=like.dtype))
        return torch.log1p(-lost)[None, :, None]

    def sums(
        self,
        q: Float[Tensor, "B H L K"],
        k: Float[Tensor, "B H L K"],
        v: Float[Tensor, "B H L P"],
        log_decay: Float[Tensor, "#B H #L"],
        *,
        document_starts: Bool[Tensor, "B L"] | None = None,
        state: Float[Tensor, "B H K P"] | None = None,
    ) -> tuple[Float[Tensor, "B H L P"], Float[Tensor, "B H K P"]]:
        return decayed_sums(q, k, v, log_decay, state=state, starts=document_starts, chunk_size=self.chunk_size)

    def gated(self, y: Float[Tensor, "B H L P"], x: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        normed = y * (y.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        gate = F.silu(self.gate(x))
        output: Tensor = self.output(gate * merge_heads(normed).to(gate.dtype))
        return output

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """Return the only map it has, whatever `causal` is."""
        del causal
        q, k, _ = self.project(x, context)
        with without_autocast(q):
            return (q @ k.mT) * decay_matrix(self.log_decay(q), find_document_starts(context), x.shape[1], q)

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        _, _, v = self.project(x, context)
        with without_autocast(weights):
            y = weights @ v.to(weights.dtype)
        return self.gated(y, x)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> RetentionState:
        del max_length
        shape = (batch_size, self.num_heads, self.head_width, self.value_width)
        return RetentionState(0, torch.zeros(shape, device=device, dtype=at_least_float32(dtype)))

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], RetentionState]:
        assert isinstance(state, RetentionState), "a state comes from initial_state"
        q, k, v = self.project(x, context)
        log_decay = self.log_decay(q)
        if context.valid is not None:  # padding adds nothing, and nothing is forgotten over it
            k, log_decay = k * context.valid[:, None, :, None], log_decay * context.valid[:, None]
        y, state.sums = self.sums(q, k, v, log_decay, state=state.sums)
        state.length += x.shape[1]
        return self.gated(y, x), state

    def costs(self, query: CostContext) -> Costs:
        """Return the costs as a recurrence: one product makes the sums, one reads them."""
        n, d, inner = query.length, self.d_model, self.num_heads * self.value_width
        sums = d * self.value_width
        rows, chunks = padded_length(n, self.chunk_size)
        decays = self.num_heads * (rows if rows > n else 1)
        exact = rows * (2 * d + 2 * inner) + chunks * sums + n * (self.head_width + self.num_heads) + decays
        return Costs.of(
            self,
            forward_flops=4 * n * d * (d + inner) + 2 * n * d * inner + 4 * n * sums,
            state_elements=sums,
            activation_bytes=n * (d + 4 * inner) * query.bytes_per_element + 4 * exact,
        )


def _turned(
    x: Float[Tensor, "B H L K"], cosines: Float[Tensor, "#B 1 L R"], sines: Float[Tensor, "#B 1 L R"]
) -> Float[Tensor, "B H L K"]:
    """Rotate neighbouring channels as pairs."""
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((even * cosines - odd * sines, odd * cosines + even * sines), dim=-1).flatten(-2)
