"""Convolutions as long as the sequence, by Fourier transform (Cooley and Tukey 1965,
https://doi.org/10.1090/S0025-5718-1965-0178586-1), in float32 at least."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from headtohead.components.precision import without_autocast
from headtohead.components.sequence_ops.scan import in_float32


def convolved(
    x: Float[Tensor, "B L D"], ahead: Float[Tensor, "L D"], behind: Float[Tensor, "L D"] | None = None
) -> Float[Tensor, "B L D"]:
    """Return y_t = sum over s <= t of ahead_{t-s} x_s; `behind`, where given, does the same for s > t with
    behind_{s-t}, and behind_0 is not read."""
    room = torch.zeros_like(ahead[:1])
    back = room.expand_as(ahead[1:]) if behind is None else behind[1:].flip(0)
    circle = torch.cat((ahead, room, back), dim=0)
    with without_autocast(x):
        y: Tensor = _Circular.apply(in_float32(x).mT, in_float32(circle).mT)  # type: ignore[no-untyped-call]
    return y.mT.to(x.dtype)


def transform_flops(length: int, num_channels: int) -> int:
    """Return the FLOPs of one real transform of every channel, over a circle twice as long as the sequence: 5/2 N log2
    N."""
    return round(2.5 * num_channels * 2 * length * math.log2(2 * length))


class _Circular(torch.autograd.Function):
    """Keeps both spectra, so that the backward pass takes three transforms as the forward pass does."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, circle: Tensor) -> Tensor:
        size = circle.shape[-1]
        spectrum, response = torch.fft.rfft(x, n=size), torch.fft.rfft(circle)
        ctx.save_for_backward(spectrum, response)
        ctx.length, ctx.size = x.shape[-1], size
        y: Tensor = torch.fft.irfft(spectrum * response, n=size)[..., : x.shape[-1]].contiguous()
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        spectrum, response = ctx.saved_tensors
        with without_autocast(grad):
            by_product = torch.fft.rfft(grad, n=ctx.size)
            by_x = torch.fft.irfft(by_product * response.conj(), n=ctx.size)[..., : ctx.length]
            by_circle = torch.fft.irfft((by_product * spectrum.conj()).sum(0), n=ctx.size)
        return by_x, by_circle
