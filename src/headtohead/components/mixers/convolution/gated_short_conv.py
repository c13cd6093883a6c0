"""The gated short convolution of LFM2 (Liquid AI 2025, https://arxiv.org/abs/2511.23404): a few neighbours are summed,
and each token decides what it gives and what it takes."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from headtohead.components.component import Context, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.linear_maps import LinearMap, ResidualLinear
from headtohead.components.mixers.convolution.short_conv import LatestState, ShortConvolution
from headtohead.ranges import Width


class GatedShortConvolution(ShortConvolution):
    """y = (C * conv(B * v)) O with (B, C, v) = x W, where the convolution takes each channel by itself."""

    def __init__(
        self,
        d_model: int,
        *,
        num_heads: int,
        causal: bool,
        dropout: float = 0.0,
        kernel: Width = 3,
        bias: bool = False,
    ) -> None:
        super().__init__(d_model, num_heads=num_heads, causal=causal, dropout=dropout, kernel=kernel, bias=bias)
        self.input = LinearMap(d_model, 3 * d_model, bias=bias)
        self.output = ResidualLinear(d_model, d_model, bias=bias)

    def gates(self, x: Float[Tensor, "B L D"]) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gates before and after the convolution, and the values."""
        before, after, value = self.input(x).chunk(3, dim=-1)
        return before, after, value

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        before, after, value = self.gates(x)
        y: Tensor = self.output(after * super().forward(before * value, context))
        return y

    def attention(
        self, x: Float[Tensor, "B L D"], context: Context, *, causal: bool | None = None
    ) -> Float[Tensor, "B D L M"]:
        """Return the band of weights about each token, times what its key lets in and its query lets out."""
        before, after, _ = self.gates(x)
        band = super().attention(x, context, causal=causal)
        return after.mT[..., None] * band * before.mT[:, :, None]

    def mixed(
        self, weights: Float[Tensor, "B D L M"], x: Float[Tensor, "B L D"], context: Context
    ) -> Float[Tensor, "B L D"]:
        del context
        _, after, value = self.gates(x)
        mixed = torch.einsum("bdlm,bmd->bld", weights.to(x.dtype), value)
        y: Tensor = self.output(mixed if self.bias is None else mixed + after * self.bias.to(x.dtype))
        return y

    def step(
        self, x: Float[Tensor, "B L D"], state: State, context: Context
    ) -> tuple[Float[Tensor, "B L D"], LatestState]:
        before, after, value = self.gates(x)
        mixed, next_state = super().step(before * value, state, context)
        return self.output(after * mixed), next_state

    def costs(self, query: CostContext) -> Costs:
        n, d, convolution = query.length, self.d_model, super().costs(query)
        return Costs.of(
            self,
            forward_flops=8 * n * d * d + convolution.forward_flops,
            state_elements=convolution.state_elements,
            activation_bytes=6 * n * d * query.bytes_per_element + convolution.activation_bytes,
        )
