"""Inverses of many small triangular matrices at once, by halves: products of matrices, not solved one by one."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

BASE = 8
"""Above it powers of a matrix may be so large that their sum loses digits of float32."""


def inverse_of_one_minus(strict: Float[Tensor, "M C C"]) -> Float[Tensor, "M C C"]:
    """Return (1 - A)^-1 where all of A is below the diagonal; C is a power of two.

    For small blocks it is 1 + A + A^2 + ... = (1 + A) (1 + A^2) (1 + A^4); for larger ones the corner holds the inverse
    of the late half times the corner times the inverse of the early half.
    """
    size, width = strict.shape[-1], min(BASE, strict.shape[-1])
    parts = strict.unflatten(-1, (-1, width)).unflatten(-3, (-1, width))
    power = parts.diagonal(dim1=-4, dim2=-2).movedim(-1, -3).flatten(0, 1)
    inverse: Tensor = power + torch.eye(width, dtype=strict.dtype, device=strict.device)
    for _ in range((width - 1).bit_length() - 1):
        power = power @ power
        inverse = torch.baddbmm(inverse, inverse, power)
    while width < size:
        early, late = inverse.unflatten(0, (-1, 2)).unbind(1)
        inverse = strict.new_zeros(len(early), 2 * width, 2 * width)
        inverse[:, :width, :width], inverse[:, width:, width:] = early, late
        inverse[:, width:, :width] = late @ corners(strict, width).flatten(0, 1) @ early
        width *= 2
    return inverse


def corners(square: Float[Tensor, "*any C C"], half: int) -> Float[Tensor, "*any N half half"]:
    """Return a view of the late rows in the early columns of each part of two halves."""
    blocks = square.unflatten(-1, (-1, 2, half)).unflatten(-4, (-1, 2, half))
    y: Tensor = blocks[..., 1, :, :, 0, :].diagonal(dim1=-4, dim2=-2).movedim(-1, -3)
    return y
