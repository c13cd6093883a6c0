"""Noise that follows from a number alone, on any device: the same on a processor and on an accelerator.

The mixing function is SplitMix64's, as in `randomness`, in the whole numbers that torch has.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

_BITS = 64
_GAMMA, _FIRST, _SECOND = (
    int(np.uint64(number).astype(np.int64)) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_KEPT = 24
"""Bits of a number between 0 and 1: all that 32-bit floats hold."""


def noise(keys: Int[Tensor, " B"], size: int) -> Float[Tensor, "B N"]:
    """Numbers in [0, 1), others for every key."""
    places = torch.arange(1, size + 1, device=keys.device)
    mixed = _mix(_mix(keys)[:, None] + places * _GAMMA)
    return _shifted(mixed, _BITS - _KEPT).float() * 2.0**-_KEPT


def _mix(z: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    z = (z ^ _shifted(z, 30)) * _FIRST
    z = (z ^ _shifted(z, 27)) * _SECOND
    return z ^ _shifted(z, 31)


def _shifted(z: Int[Tensor, "..."], by: int) -> Int[Tensor, "..."]:
    """To the right, with zeros from the left, whatever the sign."""
    return (z >> by) & ((1 << (_BITS - by)) - 1)
