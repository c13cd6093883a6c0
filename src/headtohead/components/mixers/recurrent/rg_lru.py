"""Griffin's recurrent block: a convolution and a real-gated linear recurrent unit, beside a gated branch (De et al.
2024, https://arxiv.org/abs/2402.19427).

E inner channels, in H blocks for the gates.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from headtohead.components.component import Component
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import LinearMap, ResidualLinear
from headtohead.components.mixers.convolution.short_conv import CausalConvolution
from headtohead.components.mixers.recurrent.gated_recurrence import (
    GatedRecurrence,
    GatedRecurrentState,
    RecurrenceGates,
)
from headtohead.components.sequence_ops.scan import in_float32
from headtohead.errors import UsageError
from headtohead.ranges import Multiple, Width

SHARPNESS = 8.0
"""The paper's c: a_t = sigmoid(decay)^(c r_t)."""
LEAST_DECAY, MOST_DECAY = 0.9, 0.999
"""a_t starts between these where r_t = 1."""
NEARLY_NOTHING = 1e-30
"""1 - a_t^2 stays above: at zero, where a shut gate ends in float32, its root has no gradient."""


class BlockDiagonal(Component):
    """One square matrix for every block of channels."""

    def __init__(self, width: int, num_blocks: int) -> None:
        super().__init__()
        if width % num_blocks:
            raise UsageError(
                f"num_heads={num_blocks} does not divide the {width} channels of rg_lru: choose a divisor, or another "
                "expand"
            )
        inner = width // num_blocks
        self.weight = nn.Parameter(torch.empty(num_blocks, inner, inner))
        self.bias = nn.Parameter(torch.empty(width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5)
        nn.init.zeros_(self.bias)

    def forward(self, x: Float[Tensor, "B L E"]) -> Float[Tensor, "B L E"]:
        by_block = x.unflatten(-1, self.weight.shape[:2])
        return torch.einsum("blhi,hio->blho", by_block, self.weight).flatten(2) + self.bias

    def costs(self, query: CostContext) -> Costs:
        return Costs.of(self, forward_flops=2 * query.length * self.weight.numel())


class RgLru(GatedRecurrence):
    """h_t = a_t h_{t-1} + sqrt(1 - a_t^2) (i_t v_t), where v is convolved and h is gated on its way out."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        expand: Multiple = 1.0,
        conv: Width = 4,
    ) -> None:
        super().__init__()
        del causal, dropout
        self.causal, self.d_model, self.width = True, d_model, int(expand * d_model)
        self.gate = LinearMap(d_model, self.width)
        self.value = LinearMap(d_model, self.width)
        self.conv = CausalConvolution(self.width, taps=conv, bias=True)
        self.recurrence_gate = BlockDiagonal(self.width, num_heads)
        self.input_gate = BlockDiagonal(self.width, num_heads)
        self.decay = nn.Parameter(torch.empty(self.width))
        self.output = ResidualLinear(self.width, d_model)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw sigmoid(decay)^c evenly between 0.9 and 0.999."""
        a = torch.rand(self.width, device=self.decay.device) * (MOST_DECAY - LEAST_DECAY) + LEAST_DECAY
        with torch.no_grad():
            self.decay.copy_(torch.logit(a ** (1 / SHARPNESS)))

    def gates(
        self,
        x: Float[Tensor, "B L D"],
        document_starts: Bool[Tensor, "B L"] | None,
        state: GatedRecurrentState | None = None,
        valid: Bool[Tensor, "B L"] | None = None,
    ) -> RecurrenceGates:
        values = self.value(x)
        if valid is not None:
            values = values.masked_fill(~valid[..., None], 0.0)
        tail = None if state is None else state.tail
        v = self.conv(values, document_starts, tail)
        if state is not None and tail is not None:
            state.tail = self.conv.next_tail(values, tail)
        r, i = (torch.sigmoid(in_float32(gate(v))) for gate in (self.recurrence_gate, self.input_gate))
        log_a = SHARPNESS * r * F.logsigmoid(in_float32(self.decay))
        return RecurrenceGates(
            log_a, torch.sqrt(NEARLY_NOTHING - torch.expm1(2 * log_a)) * i, in_float32(v), F.gelu(self.gate(x))
        )

    def write(self, h: Float[Tensor, "B L E"], gates: RecurrenceGates) -> Float[Tensor, "B L D"]:
        assert gates.output is not None
        y: Tensor = self.output(gates.output * h)
        return y

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> GatedRecurrentState:
        state = super().initial_state(batch_size, max_length, device=device, dtype=dtype)
        state.tail = self.conv.initial_tail(batch_size, device=device, dtype=dtype)
        return state

    def costs(self, query: CostContext) -> Costs:
        n, d, e = query.length, self.d_model, self.width
        inside = self.conv.costs(query) + self.recurrence_gate.costs(query) + self.input_gate.costs(query)
        own = Costs.of(
            self,
            forward_flops=6 * n * d * e,
            state_elements=e,
            activation_bytes=(n * (d + 12 * e) + 2 * e) * query.bytes_per_element,
        )
        return own + replace(inside, parameters=0, active_parameters=0)
