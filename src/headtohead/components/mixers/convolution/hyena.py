"""Hyena of order two: a convolution as long as the sequence between two gates (Poli et al. 2023,
https://arxiv.org/abs/2302.10866), with a filter that is a small network of the distance."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headtohead.components.attention_maps import HasAttentionMaps, weighted_values
from headtohead.components.component import Context, Mixer, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import LinearMap, ResidualLinear
from headtohead.components.mixers.convolution.hyena_filter import ImplicitFilter
from headtohead.components.mixers.convolution.short_conv import CausalConvolution
from headtohead.components.precision import at_least_float32, without_autocast
from headtohead.components.sequence_ops.fft_convolution import convolved, transform_flops
from headtohead.components.sequence_ops.ragged_rows import one_row_per_document
from headtohead.components.sequence_ops.scan import in_float32
from headtohead.errors import UsageError
from headtohead.ranges import Depth, Length, Positive, Width


@dataclass(frozen=True)
class Response:
    """The filter at all distances: made of weights, not of tokens, and the same for all rows."""

    values: Float[Tensor, "L D"]


@dataclass
class HyenaState(State):
    """All inputs of the long convolution, with room for those to come, and the last ones of the short."""

    inputs: Float[Tensor, "B M D"] | None = None
    tail: Float[Tensor, "B T E"] | None = None
    response: Response | None = None


@dataclass(frozen=True)
class Projections:
    """The output's gate, the gate of the value before the long convolution, and the value."""

    outer: Float[Tensor, "B L D"]
    inner: Float[Tensor, "B L D"]
    value: Float[Tensor, "B L D"]


class Hyena(Mixer, HasAttentionMaps):
    """y = outer (filter * (inner value) + skip inner value), each of the three a short convolution of a projection."""

    sums_to_one = False
    transforms = True
    keeps_float32 = True

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        conv: Width = 3,
        reach: Length = 1024,
        filter_width: Width = 64,
        filter_depth: Depth = 3,
        bands: Width = 8,
        frequency: Positive = 10.0,
    ) -> None:
        super().__init__()
        del num_heads, dropout
        self.causal, self.d_model = causal, d_model
        self.projection = LinearMap(d_model, 3 * d_model)
        self.conv = CausalConvolution(3 * d_model, taps=conv, bias=True)
        self.filter = ImplicitFilter(
            d_model,
            num_sides=1 if causal else 2,
            reach=reach,
            width=filter_width,
            depth=filter_depth,
            bands=bands,
            frequency=frequency,
        )
        self.skip = nn.Parameter(torch.empty(d_model))
        self.output = ResidualLinear(d_model, d_model)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.skip)

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        p = self.project(x, context)
        z = p.inner * p.value
        documents = one_row_per_document(z, context)
        y = self.long(z) if documents is None else documents.back(self.long(documents.x))
        return self.write(y, z, p)

    def project(self, x: Float[Tensor, "B L D"], context: Context) -> Projections:
        """Project the tokens; padding and other documents are zero to the short convolution and to the long one."""
        h = self.projection(x)
        if not self.causal and context.valid is not None:
            h = h.masked_fill(~context.valid[..., None], 0.0)
        documents = one_row_per_document(h, context)
        h = self.short(h) if documents is None else documents.back(self.short(documents.x))
        outer, inner, value = h.chunk(3, dim=-1)
        if not self.causal and context.valid is not None:
            value = value.masked_fill(~context.valid[..., None], 0.0)
        return Projections(outer, inner, value)

    def short(self, h: Float[Tensor, "B L E"]) -> Float[Tensor, "B L E"]:
        """Convolve over the last tokens, or, where both sides are visible, over those around."""
        return self.conv(h) if self.causal else self.conv.centred(h)

    def long(self, z: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        """Convolve filter and sequence in float32 at least."""
        sides = self.responses(z.shape[1])
        return convolved(z, sides[0], None if self.causal else sides[1])

    def responses(self, length: int) -> list[Float[Tensor, "L D"]]:
        """Return the responses to tokens before, and to tokens after where these are visible."""
        with without_autocast(self.skip):
            return list(in_float32(self.filter(length)).unbind(1))

    def write(self, y: Float[Tensor, "B L D"], z: Float[Tensor, "B L D"], p: Projections) -> Float[Tensor, "B L D"]:
        output: Tensor = self.output(p.outer * (y + self.skip.to(z.dtype) * z))
        return output

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B H L M"]:
        """Return outer_t filter_{t-s} inner_s of every channel; a filter that only looks back has no other
        direction."""
        p, length = self.project(x, context), x.shape[1]
        sides = self.responses(length)
        position = torch.arange(length, device=x.device)
        gap = position[:, None] - position
        seen = gap >= 0 if self.causal or causal else torch.ones_like(gap, dtype=torch.bool)
        response = torch.where(gap[..., None] >= 0, sides[0][gap.clamp(min=0)], sides[-1][(-gap).clamp(min=0)])
        response = response + torch.where(gap == 0, 1.0, 0.0)[..., None] * in_float32(self.skip)
        if context.segments is not None:
            seen = seen & (context.segments[:, :, None] == context.segments[:, None, :])
        if not self.causal and context.valid is not None:
            seen = seen & context.valid[:, None, :]
        weights = in_float32(p.outer).mT[..., None] * response.permute(2, 0, 1) * in_float32(p.inner).mT[:, :, None]
        return weights * (seen if seen.dim() == 2 else seen[:, None])

    def mixed(
        self, weights: Float[Tensor, "B H L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        value = self.project(x, context).value
        y: Tensor = self.output(weighted_values(weights, in_float32(value)).to(value.dtype))
        return y

    def initial_state(
        self, batch_size: int, max_length: int, *, device: torch.device, dtype: torch.dtype
    ) -> HyenaState:
        exact_dtype = at_least_float32(dtype)
        inputs = torch.zeros(batch_size, max_length, self.d_model, device=device, dtype=exact_dtype)
        tail = self.conv.initial_tail(batch_size, device=device, dtype=dtype)
        return HyenaState(0, inputs, tail, Response(self.responses(max_length)[0].detach()))

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], HyenaState]:
        assert isinstance(state, HyenaState) and state.inputs is not None and state.tail is not None
        h = self.projection(x)
        if context.valid is not None:
            h = h.masked_fill(~context.valid[..., None], 0.0)
        outer, inner, value = self.conv(h, None, state.tail).chunk(3, dim=-1)
        state.tail = self.conv.next_tail(h, state.tail)
        if context.valid is not None:
            value = value.masked_fill(~context.valid[..., None], 0.0)
        z, end = inner * value, state.length + x.shape[1]
        if end > state.inputs.shape[1]:
            raise UsageError(
                f"{end} tokens do not fit a state made for max_length={state.inputs.shape[1]}: make it longer"
            )
        state.inputs[:, state.length : end] = z
        y = self._read(state, end)
        state.length = end
        return self.write(y.to(z.dtype), z, Projections(outer, inner, value)), state

    def _read(self, state: HyenaState, end: int) -> Float[Tensor, "B L D"]:
        """Compute the long convolution at the newest tokens: one token by its sum, several by a transform."""
        assert state.inputs is not None and state.response is not None
        seen, response = state.inputs[:, :end], state.response.values[:end]
        if end - state.length == 1:
            return torch.einsum("bsd,sd->bd", seen, response.flip(0))[:, None]
        return convolved(seen, response)[:, state.length :]

    def costs(self, query: CostContext) -> Costs:
        """Return the costs; the long convolution counts as the three transforms that it takes, and three more in the
        backward pass."""
        n, d = query.length, self.d_model
        inside = self.conv.costs(query) + self.filter.costs(query)
        transforms = 3 * transform_flops(n, d)
        own = Costs.of(
            self,
            forward_flops=8 * n * d * d,
            state_elements=n * d,
            activation_bytes=(n * 7 * d + 4 * (n + 1) * d) * query.bytes_per_element,
        )
        both = own + replace(inside, parameters=0, active_parameters=0)
        return replace(
            both,
            forward_flops=both.forward_flops + transforms,
            training_flops=both.training_flops + 2 * transforms,
        )
