"""Arithmetic in float32 or wider, whatever precision a model is trained in: exponentials and sums over thousands of
tokens lose too much in half precision."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    """Return float32 for narrower types and the type itself for wider ones."""
    return torch.promote_types(dtype, torch.float32)


def without_autocast(tensor: Tensor) -> AbstractContextManager[object]:
    """Switch autocast off on the tensor's device, where it has one."""
    kind = tensor.device.type
    return torch.autocast(kind, enabled=False) if torch.amp.is_autocast_available(kind) else nullcontext()
