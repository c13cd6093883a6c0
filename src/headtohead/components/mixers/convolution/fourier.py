"""Fourier transforms along tokens and channels mix without any weight: FNet (Lee-Thorp et al. 2021,
https://arxiv.org/abs/2105.03824)."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor, device, dtype

from headtohead.components.component import Context, Mixer, State
from headtohead.components.costs import CostContext, Costs
from headtohead.components.precision import without_autocast
from headtohead.components.sequence_ops.ragged_rows import one_row_per_document
from headtohead.components.sequence_ops.scan import in_float32
from headtohead.errors import UsageError

_COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}
_WHOLE_ROWS = "mixer=fourier reads whole sequences and cannot decode step by step: use another mixer"


class Fourier(Mixer):
    """y = Re F_tokens(F_channels(x)) (Eq. 1), in float32 at least, where each row is as long as its own tokens."""

    no_mup_rule = "no rule is published for Fourier transforms, whose outputs grow with the width"
    can_be_causal = False
    transforms = True

    def __init__(self, d_model: int, *, num_heads: int, causal: bool, dropout: float = 0.0) -> None:
        super().__init__()
        del num_heads, dropout
        if causal:
            raise UsageError(
                "mixer=fourier mixes all tokens at once, and cannot be causal: use another mixer, "
                "model=vision_transformer or model=encoder_only"
            )
        self.d_model, self.causal = d_model, False

    def forward(self, x: Float[Tensor, "B L D"], context: Context) -> Float[Tensor, "B L D"]:
        documents = one_row_per_document(x, context)
        if documents is not None:
            return documents.back(self.transformed(documents.x * documents.valid[..., None], documents.valid.sum(1)))
        if context.valid is None:
            return self.transformed(x)
        return self.transformed(x * context.valid[..., None], context.valid.sum(1))

    def transformed(
        self, x: Float[Tensor, "B L D"], lengths: Int[Tensor, " B"] | None = None
    ) -> Float[Tensor, "B L D"]:
        """Transform whole rows, or rows of these lengths with zeros behind them."""
        with without_autocast(x):
            exact = in_float32(x)
            by_channel = torch.fft.fft(exact.to(_COMPLEX[exact.dtype]), dim=-1)
            mixed = torch.fft.fft(by_channel, dim=1) if lengths is None else transformed_rows(by_channel, lengths)
            return mixed.real.to(x.dtype)

    def initial_state(self, batch_size: int, max_length: int, *, device: device, dtype: dtype) -> State:
        del batch_size, max_length, device, dtype
        raise UsageError(_WHOLE_ROWS)

    def step(self, x: Float[Tensor, "B L D"], state: State, context: Context) -> tuple[Float[Tensor, "B L D"], State]:
        del x, state, context
        raise UsageError(_WHOLE_ROWS)

    def costs(self, query: CostContext) -> Costs:
        """Return 5 N log2 N for N complex numbers along each of the two, and as much in the backward pass; a linear map
        without weights saves nothing."""
        n, d = query.length, self.d_model
        forward = round(5 * n * d * math.log2(d)) + round(5 * n * d * math.log2(n))
        return replace(Costs.of(self, forward_flops=forward), training_flops=2 * forward)


def transformed_rows(z: Complex[Tensor, "B L D"], lengths: Int[Tensor, " B"]) -> Complex[Tensor, "B L D"]:
    """Return the Fourier transform of each row's own tokens, without reading their number: as a convolution with a
    chirp, since jk = (j^2 + k^2 - (k - j)^2) / 2 (Bluestein 1970, https://doi.org/10.1109/TAU.1970.1162132)."""
    length = z.shape[1]
    index = torch.arange(length, device=z.device)
    period = 2 * lengths.clamp(min=1)[:, None]
    angle = 2 * math.pi * (index**2 % period).to(z.real.dtype) / period
    chirp = torch.polar(torch.ones_like(angle), -angle)[..., None]
    around = torch.cat((chirp, torch.zeros_like(chirp[:, :1]), chirp[:, 1:].flip(1)), dim=1).conj()
    spectrum = torch.fft.fft(z * chirp, n=2 * length, dim=1) * torch.fft.fft(around, dim=1)
    convolved: Tensor = torch.fft.ifft(spectrum, dim=1)[:, :length]
    return convolved * chirp
