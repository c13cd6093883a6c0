"""Mamba: a state space whose step, input and output each token chooses (Gu and Dao 2023,
https://arxiv.org/abs/2312.00752); parameters are laid out as published.

E inner channels, N states of each, R rank of the step size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.components.attention_maps import HasAttentionMaps, implicit_decays, weighted_values
from headtohead.components.component import Component, Context, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.fast_kernels import SELECTIVE_SCAN, Accelerated, FastKernel, MambaKernel
from headtohead.components.linear_maps import LinearMap, ResidualLinear
from headtohead.components.mixers.convolution.short_conv import CausalConvolution
from headtohead.components.norms import RmsScale
from headtohead.components.precision import at_least_float32, without_autocast
from headtohead.components.sequence_ops.ragged_rows import find_document_starts
from headtohead.components.sequence_ops.scan import chunks, in_float32, selective_scan
from headtohead.field_group import FieldGroup
from headtohead.ranges import Amount, Multiple, Positive, Width

LEAST_STEP, MOST_STEP, STEP_FLOOR = 1e-3, 1e-1, 1e-4


@dataclass(frozen=True)
class InnerChannels(FieldGroup):
    """The inner channels of either Mamba: how many for each of the stream, the states of each, the taps of the
    convolution before them, and which layers have biases."""

    state: Width = 16
    expand: Multiple = 2.0
    conv: Amount = 4
    bias: bool = False
    """Whether the projections into and out of the inner channels have biases."""
    conv_bias: bool = True
    """Whether the convolution has a bias for each channel."""

    def width(self, d_model: int) -> int:
        """Return the number of inner channels."""
        return int(self.expand * d_model)

    def convolution(self, width: int) -> CausalConvolution:
        """Return the convolution over so many channels."""
        return CausalConvolution(width, taps=self.conv, bias=self.conv_bias)


@torch.no_grad()
def start_steps(bias: nn.Parameter) -> None:
    """Draw steps evenly on a logarithmic scale, and set the bias to the inverse softplus of them."""
    low, high = math.log(LEAST_STEP), math.log(MOST_STEP)
    step = (torch.rand(len(bias), device=bias.device) * (high - low) + low).exp().clamp(min=STEP_FLOOR)
    bias.copy_(step + torch.log(-torch.expm1(-step)))


@dataclass
class MambaState(State):
    """The states of all channels, and the last inputs of the convolution."""

    hidden: Float[Tensor, "B E N"] | None = None
    tail: Float[Tensor, "B T E"] | None = None


@dataclass(frozen=True)
class MambaSelection:
    """The token-dependent parameters: values, gates, step sizes, and how tokens write to the state (B) and read from it
    (C)."""

    value: Float[Tensor, "B L E"]
    gate: Float[Tensor, "B L E"]
    step: Float[Tensor, "B L E"]
    B: Float[Tensor, "B L N"]
    C: Float[Tensor, "B L N"]


class StepProjection(Component):
    """R -> E, whose bias starts so that step sizes are between 0.001 and 0.1."""

    def __init__(self, rank: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, rank))
        self.bias = nn.Parameter(torch.empty(width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        rank = self.weight.shape[1]
        nn.init.uniform_(self.weight, -(rank**-0.5), rank**-0.5)
        start_steps(self.bias)

    def forward(self, low: Float[Tensor, "B L R"]) -> Float[Tensor, "B L E"]:
        """Return softplus in float32 at least."""
        return F.softplus(in_float32(F.linear(low, self.weight)) + self.bias)

    def costs(self, query: CostContext) -> Costs:
        width, rank = self.weight.shape
        return Costs.of(
            self,
            forward_flops=2 * query.length * width * rank,
            activation_bytes=query.length * width * max(4, query.bytes_per_element),
        )


class Mamba(Accelerated, HasAttentionMaps):
    """h_t = exp(dt_t A) h_{t-1} + dt_t B_t v_t, y_t = C_t h_t + D v_t, where v is convolved and y gated. With
    `norm_eps` what makes dt, B and C is normed, as in Jamba (https://arxiv.org/abs/2403.19887)."""

    no_mup_rule = "state-space models need rules of their own (https://openreview.net/forum?id=aQv5AbN1wF)"
    reads_one_way = True
    sums_to_one = False

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        inner: InnerChannels = InnerChannels(),
        rank: Width | None = None,
        norm_eps: Positive | None = None,
        kernel: MambaKernel = "auto",
    ) -> None:
        super().__init__()
        del num_heads, causal, dropout
        self.causal, self.d_model, self.width, self.state = True, d_model, inner.width(d_model), inner.state
        self.rank = math.ceil(d_model / 16) if rank is None else rank
        self.fast = FastKernel(kernel, SELECTIVE_SCAN)
        self.in_proj = LinearMap(d_model, 2 * self.width, bias=inner.bias)
        self.conv1d = inner.convolution(self.width)
        self.x_proj = LinearMap(self.width, self.rank + 2 * self.state, bias=False)
        self.dt_proj = StepProjection(self.rank, self.width)
        norms = (None if norm_eps is None else RmsScale(size, eps=norm_eps) for size in self._chosen)
        self.dt_layernorm, self.b_layernorm, self.c_layernorm = norms
        self.A_log = nn.Parameter(torch.empty(self.width, self.state))
        self.D = nn.Parameter(torch.empty(self.width))
        self.out_proj = ResidualLinear(self.width, d_model, bias=inner.bias)
        self.reset_parameters()

    @property
    def _chosen(self) -> list[int]:
        """Return the widths of what a token chooses: of its step size before `dt_proj`, of B and of C."""
        return [self.rank, self.state, self.state]

    def reset_parameters(self) -> None:
        """Set A = -1, -2, ... -N in every channel, the real form of S4D, and D = 1."""
        with torch.no_grad():
            self.A_log.copy_(torch.arange(1, self.state + 1).log().expand_as(self.A_log))
        nn.init.ones_(self.D)

    def no_weight_decay(self) -> Iterator[Tensor]:
        yield self.A_log

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        document_starts = find_document_starts(context)
        chosen = self.select(x, document_starts)
        return self.write(self.read(chosen, document_starts), chosen)

    def select(
        self,
        x: Float[Tensor, "B L D"],
        document_starts: Bool[Tensor, "B L"] | None = None,
        state: MambaState | None = None,
        valid: Bool[Tensor, "B L"] | None = None,
    ) -> MambaSelection:
        """Compute the parameters of the scan; given a state, its convolution continues from there, and padding leaves
        no trace."""
        value, gate = self.in_proj(x).chunk(2, dim=-1)
        if valid is not None:
            value = value.masked_fill(~valid[..., None], 0.0)
        tail = None if state is None else state.tail
        convolved = F.silu(self.conv1d(value, document_starts, tail))
        if state is not None and tail is not None:
            state.tail = self.conv1d.next_tail(value, tail)
        norms = (self.dt_layernorm, self.b_layernorm, self.c_layernorm)
        chosen = self.x_proj(convolved).split(self._chosen, dim=-1)
        low, B, C = (part if norm is None else norm(part) for norm, part in zip(norms, chosen, strict=True))
        step = self.dt_proj(low)
        if valid is not None:
            step = step.masked_fill(~valid[..., None], 0.0)
        return MambaSelection(convolved, gate, step, B, C)

    def read(self, chosen: MambaSelection, document_starts: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B L E"]:
        """Return what the tokens read of the states."""
        v, A = chosen.value, self.rates()
        if document_starts is None and (fused := self.fast.function(v)) is not None:
            v, step, B, C = (t.mT.contiguous().to(v.dtype) for t in (v, chosen.step, chosen.B, chosen.C))
            y: Tensor = fused(v, step, A, B, C)
            return y.mT
        return selective_scan(v, chosen.step, A, chosen.B, chosen.C, document_starts=document_starts)[0]

    def rates(self) -> Float[Tensor, "E N"]:
        """Return A: the rate at which each state decays."""
        return -in_float32(self.A_log).exp()

    def write(self, y: Float[Tensor, "B L E"], chosen: MambaSelection) -> Float[Tensor, "B L D"]:
        y = y + self.D.to(y.dtype) * chosen.value
        output: Tensor = self.out_proj(y * F.silu(chosen.gate))
        return output

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """Return C_t exp(A (dt_{s+1} + ... + dt_t)) B_s dt_s of every channel; the recurrence has no other
        direction."""
        del causal
        document_starts = find_document_starts(context)
        chosen, A = self.select(x, document_starts), self.rates()
        with without_autocast(x):
            weights = sum(
                implicit_decays(chosen.step * A[:, n], document_starts)
                * (in_float32(chosen.C[:, None, :, None, n]) * in_float32(chosen.B[:, None, None, :, n]))
                for n in range(self.state)
            )
            assert isinstance(weights, Tensor)
            return weights * chosen.step.mT[:, :, None]

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        chosen = self.select(x, find_document_starts(context))
        return self.write(weighted_values(weights, in_float32(chosen.value)).to(chosen.value.dtype), chosen)

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> MambaState:
        del max_length
        exact_dtype = at_least_float32(dtype)
        hidden = torch.zeros(batch_size, self.width, self.state, device=device, dtype=exact_dtype)
        return MambaState(hidden=hidden, tail=self.conv1d.initial_tail(batch_size, device=device, dtype=dtype))

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], MambaState]:
        assert isinstance(state, MambaState), "a state comes from initial_state"
        chosen = self.select(x, None, state, context.valid)
        y, state.hidden = selective_scan(
            chosen.value, chosen.step, self.rates(), chosen.B, chosen.C, state=state.hidden
        )
        state.length += x.shape[1]
        return self.write(y, chosen), state

    def costs(self, query: CostContext) -> Costs:
        """Return the costs of writing to the states and reading from them; the decay of the states is elementwise."""
        n, d, e, s, r = query.length, self.d_model, self.width, self.state, self.rank
        inside = self.conv1d.costs(query) + self.dt_proj.costs(query)
        products = 6 * n * d * e + 2 * n * e * (r + 2 * s) + 4 * n * e * s
        saved = n * (d + 8 * e + r + 2 * s) + e * s * (2 + len(chunks(n)))
        norms = 0 if self.dt_layernorm is None else n * ((r + 2 * s) * query.bytes_per_element + 3 * 4)
        own = Costs.of(
            self,
            forward_flops=products,
            state_elements=e * s,
            activation_bytes=saved * query.bytes_per_element + norms,
        )
        return own + replace(inside, parameters=0, active_parameters=0)
