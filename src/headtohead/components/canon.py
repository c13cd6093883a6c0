"""A feed-forward behind a canon layer: each token has a short causal convolution of those before it added to it
(Allen-Zhu 2025, https://arxiv.org/abs/2512.17351).

It is the paper's Canon-C; Canon-A, before a mixer, is `model/local=short_conv`, whose `start=identity` is the sum.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.component import Context, State, TensorParallelPlan
from headtohead.components.costs import CostContext, Costs
from headtohead.components.feedforwards import Activation, DenseFeedForward, DenseState
from headtohead.components.mixers.convolution.short_conv import CausalConvolution
from headtohead.components.sequence_ops.ragged_rows import find_document_starts
from headtohead.ranges import Multiple, Width


@dataclass
class CanonState(State):
    """The last tokens, and the state of the dense layers."""

    tail: Float[Tensor, "B T D"] | None = None
    dense: State = field(default_factory=State)


class CanonFeedForward(DenseFeedForward):
    """A dense feed-forward of x + conv(x), where conv sees a token and the conv - 1 before it."""

    follows_order = True
    no_mup_rule = "no rule is published for the convolution before it"

    def __init__(
        self,
        d_model: int,
        *,
        dropout: float = 0.0,
        multiple: Multiple = 4.0,  # inner width, as a multiple of d_model
        activation: Activation = "silu",  # the nonlinearity after the first layer, of the gate where there is one
        gated: bool = True,  # true: act(gate(x)) * up(x), with a third matrix; false: act(up(x))
        two_thirds: bool = True,  # times 2/3, to a multiple of 8: a gated layer as large as an ungated one
        bias: bool = False,  # whether its linear layers have biases
        conv: Width = 4,
    ) -> None:
        super().__init__(
            d_model,
            dropout=dropout,
            multiple=multiple,
            activation=activation,
            gated=gated,
            two_thirds=two_thirds,
            bias=bias,
        )
        self.conv = CausalConvolution(d_model, taps=conv, bias=False)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        return super().forward(x + self.conv(x, find_document_starts(context)), context)

    def initial_state(self, batch_size: int, *, device: torch.device, dtype: torch.dtype) -> CanonState:
        tail = self.conv.initial_tail(batch_size, device=device, dtype=dtype)
        return CanonState(0, tail, super().initial_state(batch_size, device=device, dtype=dtype))

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], CanonState]:
        assert isinstance(state, CanonState) and state.tail is not None, "a state comes from initial_state"
        if context.valid is not None:
            x = x.masked_fill(~context.valid[..., None], 0.0)
        summed = x + self.conv(x, None, state.tail)
        state.tail, state.length = self.conv.next_tail(x, state.tail), state.length + x.shape[1]
        if isinstance(state.dense, DenseState):
            return super().step(summed, state.dense, context)[0], state
        return super().forward(summed, context), state

    def tensor_parallel_plan(self) -> TensorParallelPlan | None:
        """Return None: each device would convolve all channels."""
        return None

    def costs(self, query: CostContext) -> Costs:
        """Return the costs of the dense layers and of the convolution."""
        inside = self.conv.costs(query)
        return super().costs(query) + replace(inside, parameters=0, active_parameters=0)
