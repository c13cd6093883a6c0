"""A measure of what lives between a forward and its backward pass, whoever holds it: autograd, or what recomputes."""

from __future__ import annotations

import torch

from headtohead.components.component import Context
from headtohead.components.stack import Stack
from headtohead.estimates.work_meter import TensorMeter


def held_bytes(made: Stack, length: int, memory_length: int = 0) -> int:
    """Return the bytes that live after a stack has read a row, besides its weights, its positions and its
    output."""
    row, source = (torch.randn(1, number, made.d_model).requires_grad_() for number in (length, memory_length))
    positions = torch.arange(length)[None]
    with TensorMeter(ignored=[*made.parameters(), *made.buffers(), row, source, positions]) as meter:
        y = made(row + 0.0, Context(positions=positions, memory=source + 0.0 if memory_length else None))
        return meter.bytes() - y.untyped_storage().nbytes()
