"""Mamba-2: a state space with one decay per head, which is linear attention with a gate (Dao and Gu 2024,
https://arxiv.org/abs/2405.21060); parameters are laid out as published.

E inner channels in H heads of width P, N states, G groups of heads that share what they write and read by.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from headtohead.components.attention_maps import HasAttentionMaps
from headtohead.components.component import Component, Context, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.fast_kernels import CHUNK_SCAN, Accelerated, FastKernel, MambaKernel
from headtohead.components.linear_maps import LinearMap, ResidualLinear
from headtohead.components.mixers.attention.softmax_attention import merge_heads, split_heads
from headtohead.components.mixers.linear.delta_rule import decay_strengths
from headtohead.components.mixers.recurrent.mamba import InnerChannels, start_steps
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
class Mamba2State(State):
    """The states of all heads, and the last inputs of the convolution."""

    hidden: Float[Tensor, "B H N P"] | None = None
    tail: Float[Tensor, "B T E"] | None = None


@dataclass(frozen=True)
class Mamba2Selection:
    """The token-dependent parameters: values, gates, step sizes, and how tokens write to the state (B) and read from it
    (C)."""

    value: Float[Tensor, "B H L P"]
    gate: Float[Tensor, "B L E"]
    step: Float[Tensor, "B H L"]
    B: Float[Tensor, "B H L N"]
    C: Float[Tensor, "B H L N"]


class GatedRmsNorm(Component):
    """y silu(z) / rms * weight, each group of channels by itself."""

    def __init__(self, width: int, *, num_groups: int, eps: float) -> None:
        super().__init__()
        self.width, self.num_groups, self.eps = width, num_groups, eps
        self.weight = nn.Parameter(torch.ones(width))

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)

    def forward(self, y: Float[Tensor, "B L E"], gate: Float[Tensor, "B L E"]) -> Float[Tensor, "B L E"]:
        y = y * F.silu(gate.to(y.dtype))
        groups = y.unflatten(-1, (self.num_groups, -1))
        scale = (groups.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        output: Tensor = (groups * scale).flatten(-2) * self.weight.to(y.dtype)
        return output

    def costs(self, query: CostContext) -> Costs:
        return Costs.of(self, activation_bytes=4 * query.length * (4 * self.width + self.num_groups))


class Mamba2(Accelerated, HasAttentionMaps):
    """h_t = exp(dt_t A) h_(t-1) + dt_t B_t v_t, y_t = C_t h_t + D v_t, where v, B and C are convolved and y gated."""

    no_mup_rule = "state-space models need rules of their own (https://openreview.net/forum?id=aQv5AbN1wF)"
    sums_to_one = False
    reads_one_way: ClassVar[bool] = True

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        inner: InnerChannels = InnerChannels(state=128),
        head_width: Width | None = None,
        num_groups: Width = 1,
        eps: Positive = 1e-5,
        chunk_size: Width = 64,
        kernel: MambaKernel = "auto",
    ) -> None:
        super().__init__()
        del causal, dropout  # it reads from left to right, and has no weights to drop
        check_chunk_size(chunk_size)
        self.fast = FastKernel(kernel, CHUNK_SCAN)
        self.causal, self.d_model, self.width, self.state = True, d_model, inner.width(d_model), inner.state
        self.head_width = self.width // num_heads if head_width is None else head_width
        self.num_heads, self.num_groups, self.chunk_size = self.width // self.head_width, num_groups, chunk_size
        self._check(num_heads, head_width)
        mixed = self.width + 2 * num_groups * self.state
        self.in_proj = LinearMap(d_model, self.width + mixed + self.num_heads, bias=inner.bias)
        self.conv1d = inner.convolution(mixed)
        self.dt_bias = nn.Parameter(torch.empty(self.num_heads))
        self.A_log = nn.Parameter(torch.empty(self.num_heads))
        self.D = nn.Parameter(torch.empty(self.num_heads))
        self.norm = GatedRmsNorm(self.width, num_groups=num_groups, eps=eps)
        self.out_proj = ResidualLinear(self.width, d_model, bias=inner.bias)
        self.reset_parameters()

    def _check(self, num_heads: int, head_width: int | None) -> None:
        if self.num_heads * self.head_width != self.width:
            field = f"num_heads={num_heads}" if head_width is None else f"head_width={head_width}"
            raise UsageError(f"{field} does not divide mamba2's {self.width} inner channels: choose a divisor")
        if self.num_heads % self.num_groups:
            raise UsageError(
                f"num_groups={self.num_groups} does not divide mamba2's {self.num_heads} heads: choose a divisor, or 1"
            )

    def reset_parameters(self) -> None:
        """Set A from -1 to -16 at most, head by head; steps are drawn evenly on a logarithmic scale; D = 1."""
        start_steps(self.dt_bias)
        with torch.no_grad():
            self.A_log.copy_(decay_strengths(self.num_heads).log())
        nn.init.ones_(self.D)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        document_starts = find_document_starts(context)
        chosen = self.select(x, document_starts)
        if (kernel := self.fast.function(chosen.value)) is not None:
            return self.write(self._through(kernel, chosen, document_starts), chosen)
        y, _ = self.read(chosen, document_starts=document_starts)
        return self.write(y, chosen)

    def _through(
        self, kernel: Callable[..., Any], chosen: Mamba2Selection, document_starts: Bool[Tensor, "B L"] | None
    ) -> Float[Tensor, "B H L P"]:
        """Compute the same with mamba-ssm, which takes tokens before heads, and the numbers of documents."""
        v, step, B, C = (t.transpose(1, 2).contiguous() for t in (chosen.value, chosen.step, chosen.B, chosen.C))
        documents = None if document_starts is None else document_starts.cumsum(1, dtype=torch.int32)
        y: Tensor = kernel(v, step, -self.A_log.to(step.dtype).exp(), B, C, self.chunk_size, seq_idx=documents)
        return y.transpose(1, 2).to(step.dtype)

    def select(
        self,
        x: Float[Tensor, "B L D"],
        document_starts: Bool[Tensor, "B L"] | None = None,
        state: Mamba2State | None = None,
        valid: Bool[Tensor, "B L"] | None = None,
    ) -> Mamba2Selection:
        """Compute the token-dependent parameters; given a state, its convolution continues from there, and padding
        leaves no trace."""
        num_mixed, tail = self.conv1d.width, None if state is None else state.tail
        gate, mixed, step = self.in_proj(x).split([self.width, num_mixed, self.num_heads], dim=-1)
        if valid is not None:
            mixed = mixed.masked_fill(~valid[..., None], 0.0)
        convolved = F.silu(self.conv1d(mixed, document_starts, tail))
        if state is not None and tail is not None:
            state.tail = self.conv1d.next_tail(mixed, tail)
        value, B, C = convolved.split([self.width, *2 * [self.num_groups * self.state]], dim=-1)
        exact = at_least_float32(x.dtype)
        step = F.softplus(step.to(exact) + self.dt_bias.to(exact)).mT
        if valid is not None:
            step = step.masked_fill(~valid[:, None], 0.0)
        return Mamba2Selection(split_heads(value, self.head_width), gate, step, self._of_heads(B), self._of_heads(C))

    def _of_heads(self, x: Float[Tensor, "B L GN"]) -> Float[Tensor, "B H L N"]:
        return split_heads(x, self.state).repeat_interleave(self.num_heads // self.num_groups, dim=1)

    def log_decay(self, step: Float[Tensor, "B H L"]) -> Float[Tensor, "B H L"]:
        return -step * self.A_log.to(step.dtype).exp()[:, None]

    def read(
        self,
        chosen: Mamba2Selection,
        *,
        document_starts: Bool[Tensor, "B L"] | None = None,
        state: Float[Tensor, "B H N P"] | None = None,
    ) -> tuple[Float[Tensor, "B H L P"], Float[Tensor, "B H N P"]]:
        """Return what the tokens read of the states, and the last states."""
        step = chosen.step
        v = chosen.value.to(step.dtype) * step[..., None]
        return self.sums(chosen.C, chosen.B, v, self.log_decay(step), document_starts=document_starts, state=state)

    def sums(
        self,
        q: Float[Tensor, "B H L N"],
        k: Float[Tensor, "B H L N"],
        v: Float[Tensor, "B H L P"],
        log_decay: Float[Tensor, "#B #H #L"],
        *,
        document_starts: Bool[Tensor, "B L"] | None = None,
        state: Float[Tensor, "B H N P"] | None = None,
    ) -> tuple[Float[Tensor, "B H L P"], Float[Tensor, "B H N P"]]:
        return decayed_sums(q, k, v, log_decay, state=state, starts=document_starts, chunk_size=self.chunk_size)

    def write(self, y: Float[Tensor, "B H L P"], chosen: Mamba2Selection) -> Float[Tensor, "B L D"]:
        y = y + self.D.to(y.dtype)[:, None, None] * chosen.value
        output: Tensor = self.out_proj(self.norm(merge_heads(y), chosen.gate).to(chosen.gate.dtype))
        return output

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """Return the only map it has, whatever `causal` is."""
        del causal
        document_starts = find_document_starts(context)
        chosen = self.select(x, document_starts)
        step = chosen.step
        with without_autocast(step):
            scores = chosen.C.to(step.dtype) @ chosen.B.to(step.dtype).mT
            return scores * step[:, :, None] * decay_matrix(self.log_decay(step), document_starts, x.shape[1], step)

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        chosen = self.select(x, find_document_starts(context))
        with without_autocast(weights):
            y = weights @ chosen.value.to(weights.dtype)
        return self.write(y, chosen)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> Mamba2State:
        del max_length
        exact = at_least_float32(dtype)
        hidden = torch.zeros(batch_size, self.num_heads, self.state, self.head_width, device=device, dtype=exact)
        return Mamba2State(hidden=hidden, tail=self.conv1d.initial_tail(batch_size, device=device, dtype=dtype))

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], Mamba2State]:
        assert isinstance(state, Mamba2State), "a state comes from initial_state"
        chosen = self.select(x, None, state, context.valid)
        y, state.hidden = self.read(chosen, state=state.hidden)
        state.length += x.shape[1]
        return self.write(y, chosen), state

    def costs(self, query: CostContext) -> Costs:
        """Return the costs as a recurrence: one product makes the states, one reads them."""
        n, d, e, s, heads = query.length, self.d_model, self.width, self.state, self.num_heads
        inside = self.conv1d.costs(query) + self.norm.costs(query)
        rows, chunks = padded_length(n, self.chunk_size)
        saved = n * (d + e + 2 * self.conv1d.width + self.in_proj.out_features)
        exact = rows * (2 * heads * s + e + heads) + chunks * e * s + (3 * n + 1) * heads
        own = Costs.of(
            self,
            forward_flops=2 * n * d * self.in_proj.out_features + 4 * n * e * s + 2 * n * e * d,
            state_elements=e * s,
            activation_bytes=saved * query.bytes_per_element + 4 * exact,
        )
        return own + replace(inside, parameters=0, active_parameters=0)
