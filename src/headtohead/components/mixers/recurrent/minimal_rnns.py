"""minGRU: a GRU whose gates do not know its state (Feng et al. 2024, https://arxiv.org/abs/2410.01201), so that all
states come of one scan.

E inner channels.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import LinearMap, ResidualLinear
from headtohead.components.mixers.recurrent.gated_recurrence import (
    GatedRecurrence,
    GatedRecurrentState,
    RecurrenceGates,
)
from headtohead.components.sequence_ops.scan import in_float32
from headtohead.ranges import Multiple


def positive(x: Tensor) -> Tensor:
    """Return the paper's g, smooth and positive: x + 1/2, or sigmoid(x) below 0."""
    return torch.where(x >= 0, x + 0.5, torch.sigmoid(x))


def share(x: Tensor) -> Tensor:
    """Return sigmoid(x), whose gradient in float32 stays right where nearly all is taken in: 1 - sigmoid(x) has no
    digits left there."""
    return F.logsigmoid(x).exp()


class MinGru(GatedRecurrence):
    """h_t = (1 - z_t) h_{t-1} + z_t g(v_t), then a linear map to the model's width."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        expand: Multiple = 1.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        del num_heads, causal, dropout
        self.causal, self.d_model, self.width = True, d_model, int(expand * d_model)
        self.update = LinearMap(d_model, self.width, bias=bias)
        self.candidate = LinearMap(d_model, self.width, bias=bias)
        self.output = ResidualLinear(self.width, d_model, bias=bias)

    def gates(
        self,
        x: Float[Tensor, "B L D"],
        document_starts: Bool[Tensor, "B L"] | None,
        state: GatedRecurrentState | None = None,
        valid: Bool[Tensor, "B L"] | None = None,
    ) -> RecurrenceGates:
        del document_starts, state, valid
        z = in_float32(self.update(x))
        return RecurrenceGates(-F.softplus(z), share(z), positive(in_float32(self.candidate(x))))

    def write(self, h: Float[Tensor, "B L E"], gates: RecurrenceGates) -> Float[Tensor, "B L D"]:
        del gates
        y: Tensor = self.output(h)
        return y

    def costs(self, query: CostContext) -> Costs:
        n, d, e = query.length, self.d_model, self.width
        return Costs.of(
            self,
            forward_flops=6 * n * d * e,
            state_elements=e,
            activation_bytes=n * (d + 7 * e) * query.bytes_per_element + n * e,
        )


# minLSTM: an LSTM whose gates do not know its state, and share one whole (Feng et al. 2024,
# https://arxiv.org/abs/2410.01201).
#
# E inner channels.


class MinLstm(GatedRecurrence):
    """h_t = f_t / (f_t + i_t) h_{t-1} + i_t / (f_t + i_t) g(v_t), then a linear map to the model's width."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        expand: Multiple = 1.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        del num_heads, causal, dropout
        self.causal, self.d_model, self.width = True, d_model, int(expand * d_model)
        self.forget = LinearMap(d_model, self.width, bias=bias)
        self.input = LinearMap(d_model, self.width, bias=bias)
        self.candidate = LinearMap(d_model, self.width, bias=bias)
        self.output = ResidualLinear(self.width, d_model, bias=bias)

    def gates(
        self,
        x: Float[Tensor, "B L D"],
        document_starts: Bool[Tensor, "B L"] | None,
        state: GatedRecurrentState | None = None,
        valid: Bool[Tensor, "B L"] | None = None,
    ) -> RecurrenceGates:
        del document_starts, state, valid
        # log(i / f): the shares are its sigmoid and what is left.
        ahead = F.logsigmoid(in_float32(self.input(x))) - F.logsigmoid(in_float32(self.forget(x)))
        return RecurrenceGates(-F.softplus(ahead), share(ahead), positive(in_float32(self.candidate(x))))

    def write(self, h: Float[Tensor, "B L E"], gates: RecurrenceGates) -> Float[Tensor, "B L D"]:
        del gates
        y: Tensor = self.output(h)
        return y

    def costs(self, query: CostContext) -> Costs:
        n, d, e = query.length, self.d_model, self.width
        return Costs.of(
            self,
            forward_flops=8 * n * d * e,
            state_elements=e,
            activation_bytes=n * (d + 11 * e) * query.bytes_per_element + n * e,
        )
