"""Choose the lengths at which a long row is replayed, and add them up to it.

Rows up to `LONGEST` tokens are replayed as they are, longer ones at three shorter lengths, and they follow their
parabola, which is exact for attention and for whatever reads a token at a time. Where the ledger says that costs grow
in a line, the three are short: a scan over tokens is replayed token by token.
"""

from __future__ import annotations

from dataclasses import replace

from headtohead.architectures.architecture import Architecture, InputSize
from headtohead.architectures.ledger import ledger

LONGEST = 8192
_PARABOLIC, _LINEAR = (2048, 4096, 8192), (768, 1024, 1280)


def replayed_lengths(model: Architecture, size: InputSize) -> tuple[int, ...]:
    """Return the lengths at which rows of this size are replayed: their own, or three shorter ones."""
    if size.length <= LONGEST:
        return (size.length,)
    costs = [_costs(model, replace(size, length=length)) for length in (*_LINEAR[:2], size.length)]
    slope = (size.length - _LINEAR[0]) / (_LINEAR[1] - _LINEAR[0])
    # A last piece that is padded makes a percent of difference at most.
    is_line = all(abs(long - low - slope * (high - low)) <= 1e-2 * long for low, high, long in zip(*costs, strict=True))
    return _LINEAR if is_line else _PARABOLIC


def weights_at(length: int, lengths: tuple[int, ...]) -> list[float]:
    """Return what figures at each of these lengths count for one at `length` (Lagrange's polynomials)."""
    return [_lagrange(length, own, lengths) for own in lengths]


def _costs(model: Architecture, size: InputSize) -> tuple[float, ...]:
    """Return what grows with a row: its forward FLOPs, and the bytes that autograd saves."""
    totals = ledger(model, size).totals
    return totals.forward_flops_per_sample, totals.activation_bytes


def _lagrange(length: int, own: int, lengths: tuple[int, ...]) -> float:
    weight = 1.0
    for other in lengths:
        if other != own:
            weight *= (length - other) / (own - other)
    return weight
