"""The feed-forward part of a block: two linear maps with an activation between (https://arxiv.org/abs/1706.03762), or
three with a gate (Shazeer 2020, https://arxiv.org/abs/2002.05202)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.block_parts import FeedForward
from headtohead.components.component import Component, Context, State, TensorParallelPlan
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import DecodingMap, InputLinear, LinearMap, ResidualLinear, is_plain
from headtohead.components.mixers.convolution.token_shift import previous, shifted
from headtohead.components.sequence_ops.ragged_rows import find_document_starts
from headtohead.errors import UsageError
from headtohead.ranges import Multiple


def squared_relu(x: Tensor) -> Tensor:
    """Return the squared ReLU (So et al. 2021, https://arxiv.org/abs/2109.08668)."""
    return F.relu(x).square()


_FEW_VALUES = 2**13


def gelu(x: Tensor) -> Tensor:
    """Return the GELU, of a few values by torch's own kernel: oneDNN's takes longer to start than to compute them, and
    takes contiguous tensors alone."""
    if torch.compiler.is_compiling() or not torch.is_inference_mode_enabled():
        return F.gelu(x)
    if not 1 < x.numel() <= _FEW_VALUES or x.numel() % 2 or x.device.type != "cpu":
        return F.gelu(x)
    return F.gelu(x.reshape(2, -1).T).T.view(x.shape)


def gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "squared_relu"]
ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "squared_relu": squared_relu,
}
_ROWS = 128
KEEPS_OWN_OUTPUT = {"relu", "sigmoid", "tanh"}
"""Activations whose backward pass reads their output; the others keep another tensor of the same size."""


def in_few_shapes(act: Callable[[Tensor], Tensor], rows: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
    """Activate rows whose number differs from batch to batch, with the number rounded up on a CPU: torch caches a
    kernel for each shape of a GELU, a thousand of them, scattered over the heap so that it cannot shrink (a gigabyte
    and more)."""
    if rows.device.type != "cpu":
        return act(rows)
    return act(F.pad(rows, (0, 0, 0, -len(rows) % _ROWS)))[: len(rows)]


def activation_of(name: Activation) -> Callable[[Tensor], Tensor]:
    """Return the activation of this name, or raise an error with the names there are."""
    if name not in ACTIVATIONS:
        raise UsageError(f"activation={name} is unknown: choose one of {', '.join(sorted(ACTIVATIONS))}")
    return ACTIVATIONS[name]


Product = Callable[[Tensor], Tensor]


@dataclass
class DenseState(State):
    """A dense layer's linear maps, as decoding reads them."""

    gate: DecodingMap | None = None
    up: DecodingMap | None = None
    down: DecodingMap | None = None


class DenseFeedForward(FeedForward):
    """A feed-forward down(act(up(x))), or gated: down(act(gate(x)) * up(x)). With gains, learned factors of the inner
    channels follow `gate` and `up`, as nGPT's s_v and s_u (https://arxiv.org/abs/2410.01131)."""

    no_mup_rule = ""

    def __init__(
        self,
        d_model: int,
        *,
        dropout: float = 0.0,
        multiple: Multiple = 4.0,  # inner width, as a multiple of d_model
        activation: Activation = "gelu",  # the nonlinearity after the first layer, of the gate where there is one
        gated: bool = False,  # true: act(gate(x)) * up(x), with a third matrix; false: act(up(x))
        two_thirds: bool = False,  # times 2/3, to a multiple of 8: a gated layer as large as an ungated one
        bias: bool = True,  # whether its linear layers have biases
        gains: bool = False,
    ) -> None:
        super().__init__()
        inner = inner_width(d_model, multiple, two_thirds=two_thirds)
        self.d_model, self.inner, self.activation, self.dropout = d_model, inner, activation, dropout
        self.act = activation_of(activation)
        self.gate = LinearMap(d_model, inner, bias=bias) if gated else None
        self.up = LinearMap(d_model, inner, bias=bias)
        self.down = ResidualLinear(inner, d_model, bias=bias)
        self.gate_gain = nn.Parameter(torch.ones(inner)) if gains and gated else None
        self.up_gain = nn.Parameter(torch.ones(inner)) if gains else None

    def reset_parameters(self) -> None:
        for gain in (self.gate_gain, self.up_gain):
            if gain is not None:
                nn.init.ones_(gain)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        del context
        return self._through(x, self.gate, self.up, self.down)

    def _through(
        self, x: Float[Tensor, "B L D"], gate: Product | None, up: Product, down: Product
    ) -> Float[Tensor, "B L D"]:
        if gate is None:
            hidden = self.act(_gained(up(x), self.up_gain))
        else:
            hidden = self.product(_gained(gate(x), self.gate_gain), _gained(up(x), self.up_gain))
        return down(F.dropout(hidden, self.dropout) if self.training else hidden)

    def initial_state(self, batch_size: int, *, device: torch.device, dtype: torch.dtype) -> State:
        """Return the linear maps prepared for inference; weights in training are read as they are."""
        del batch_size, device, dtype
        parts = {name: part for name in ("gate", "up", "down") if (part := getattr(self, name)) is not None}
        if not torch.is_inference_mode_enabled() or not all(is_plain(part.weight) for part in parts.values()):
            return State()
        return DenseState(0, **{name: DecodingMap(part.weight, part.bias) for name, part in parts.items()})

    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> tuple[Float[Tensor, "B L D"], State]:
        if not isinstance(state, DenseState):
            return super().step(x, state, context)
        assert state.up is not None and state.down is not None, "a state comes from initial_state"
        return self._through(x, state.gate, state.up, state.down), state

    def product(self, gate: Float[Tensor, "B L E"], up: Float[Tensor, "B L E"]) -> Float[Tensor, "B L E"]:
        """Return what the gate lets through."""
        return self.act(gate) * up

    def tensor_parallel_plan(self) -> TensorParallelPlan | None:
        if self.up_gain is not None:
            return None
        column_wise = ("up",) if self.gate is None else ("gate", "up")
        return TensorParallelPlan(column_wise, ("down",), num_units=self.inner, unit_name="inner channels")

    def costs(self, query: CostContext) -> Costs:
        n, gated = query.length, self.gate is not None
        owns_output = self.activation in KEEPS_OWN_OUTPUT
        inner_tensors = (1 if owns_output else 2) + 2 * gated
        if self.up_gain is not None:  # what they multiply
            inner_tensors += 1 + gated
        if self.dropout > 0:  # its noise, and what it lets through where that was shared with the activation
            inner_tensors += 2 if owns_output and not gated else 1
        return Costs.of(
            self,
            forward_flops=2 * n * self.d_model * self.inner * (3 if gated else 2),
            activation_bytes=n * (self.d_model + inner_tensors * self.inner) * query.bytes_per_element,
        )


def _gained(channels: Float[Tensor, "B L E"], gain: Float[Tensor, " E"] | None) -> Float[Tensor, "B L E"]:
    return channels if gain is None else channels * gain


class NoFeedForward(FeedForward):
    """A block without one, as those of Mamba (Gu and Dao 2023, https://arxiv.org/abs/2312.00752)."""

    no_mup_rule = ""

    def __init__(self, d_model: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        del d_model, dropout

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        """Return zeros, which add nothing to the stream; blocks leave this part out."""
        del context
        return torch.zeros_like(x)

    def costs(self, query: CostContext) -> Costs:
        del query
        return Costs()


def inner_width(d_model: int, multiple: float, *, two_thirds: bool) -> int:
    """Return multiple x width; times 2/3, to the nearest multiple of 8, so that a gated layer has as many
    parameters."""
    if two_thirds:
        return max(8, round(multiple * d_model * 2 / 3 / 8) * 8)
    return max(1, round(multiple * d_model))


class DenseLayer(Component):
    """act(W x + b)."""

    def __init__(
        self, num_inputs: int, num_outputs: int, *, activation: Activation, dropout: float, reads_images: bool = False
    ) -> None:
        super().__init__()
        self.linear = (InputLinear if reads_images else LinearMap)(num_inputs, num_outputs)
        self.act = activation_of(activation)
        self.activation, self.dropout, self.reads_images = activation, dropout, reads_images

    def forward(self, x: Float[Tensor, "B E"]) -> Float[Tensor, "B D"]:
        return F.dropout(self.act(self.linear(x)), self.dropout, self.training)

    @property
    def leaves_output(self) -> bool:
        """Return whether autograd saves the output for this layer's sake; whatever reads it counts it."""
        return self.activation in KEEPS_OWN_OUTPUT and self.dropout == 0

    def costs(self, query: CostContext) -> Costs:
        """Return the costs. Images need no gradient, so that backward costs one forward; dropout saves its noise, and
        passes on another tensor than the activation saves."""
        num_outputs, num_inputs = self.linear.weight.shape
        owns_output = self.activation in KEEPS_OWN_OUTPUT
        tensors = (0 if owns_output else 1) + (0 if self.dropout == 0 else 1 + owns_output)
        saved = num_inputs + tensors * num_outputs
        forward = 2 * num_inputs * num_outputs * query.length
        costs = Costs.of(self, forward_flops=forward, activation_bytes=saved * query.length * query.bytes_per_element)
        return replace(costs, training_flops=2 * forward) if self.reads_images else costs


# RWKV-4's feed-forward: squared ReLU of a token and its predecessor, behind a gate (Peng et al. 2023,
# https://arxiv.org/abs/2305.13048); parameters are laid out as published.


@dataclass
class ChannelMixState(State):
    """The token before."""

    latest: Float[Tensor, "B D"] | None = None


class RwkvChannelMix(FeedForward):
    """sigmoid(W_r x') * W_v relu(W_k x'')^2, where x' and x'' hold a share of the token before."""

    follows_order = True

    def __init__(self, d_model: int, *, dropout: float = 0.0, multiple: Multiple = 4.0) -> None:
        super().__init__()
        self.d_model, self.inner, self.dropout = d_model, inner_width(d_model, multiple, two_thirds=False), dropout
        self.time_mix_key = nn.Parameter(torch.empty(1, 1, d_model))
        self.time_mix_receptance = nn.Parameter(torch.empty(1, 1, d_model))
        self.key = LinearMap(d_model, self.inner, bias=False)
        self.receptance = LinearMap(d_model, d_model, bias=False)
        self.value = ResidualLinear(self.inner, d_model, bias=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start like a layer in the middle of the paper's stack: later channels look back less."""
        position = torch.arange(self.d_model, device=self.time_mix_key.device) / self.d_model
        with torch.no_grad():
            self.time_mix_key.copy_(position**0.5)
            self.time_mix_receptance.copy_(position**0.5)

    def no_weight_decay(self) -> Iterator[Tensor]:
        yield from (self.time_mix_key, self.time_mix_receptance)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        return self.mix(x, previous(x, find_document_starts(context)))

    def mix(self, x: Float[Tensor, "B L D"], before: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        hidden = squared_relu(self.key(shifted(x, before, self.time_mix_key)))
        gate = torch.sigmoid(self.receptance(shifted(x, before, self.time_mix_receptance)))
        y: Tensor = gate * self.value(F.dropout(hidden, self.dropout) if self.training else hidden)
        return y

    def initial_state(self, batch_size: int, *, device: torch.device, dtype: torch.dtype) -> ChannelMixState:
        return ChannelMixState(latest=torch.zeros(batch_size, self.d_model, device=device, dtype=dtype))

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], ChannelMixState]:
        assert isinstance(state, ChannelMixState), "a state comes from initial_state"
        if context.valid is not None:
            x = x.masked_fill(~context.valid[..., None], 0.0)
        y = self.mix(x, previous(x, None, state.latest))
        state.latest = x[:, -1]
        state.length += x.shape[1]
        return y, state

    def costs(self, query: CostContext) -> Costs:
        n, d, inner = query.length, self.d_model, self.inner
        saved = n * (6 * d + (2 if self.dropout == 0 else 3) * inner)
        return Costs.of(
            self,
            forward_flops=4 * n * d * inner + 2 * n * d * d,
            state_elements=d,
            activation_bytes=saved * query.bytes_per_element,
        )
