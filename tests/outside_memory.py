"""A memory outside of torch's, to which a processor can offload activations as a device does to a processor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headtohead.components import checkpointing


@dataclass
class OutsideMemory:
    """Bytes of numpy, which no meter of torch's tensors sees."""

    num_bytes: int = 0

    def away(self, tensor: Tensor) -> tuple[np.ndarray, torch.dtype, tuple[int, ...], torch.Size]:
        """Return the numbers as they lie, with what makes a tensor of them again."""
        packed = torch.empty_like(tensor).copy_(tensor)
        self.num_bytes += packed.numel() * packed.element_size()
        lying = torch.as_strided(packed, (packed.numel(),), (1,)).view(torch.uint8)
        return lying.numpy().copy(), tensor.dtype, packed.stride(), tensor.shape

    def back(self, moved: tuple[np.ndarray, torch.dtype, tuple[int, ...], torch.Size]) -> Tensor:
        numbers, dtype, strides, shape = moved
        lying = torch.empty(len(numbers), dtype=torch.uint8).copy_(torch.from_numpy(numbers))
        return torch.as_strided(lying.view(dtype), shape, strides)


def with_outside_memory(monkeypatch: pytest.MonkeyPatch, away: Callable[[Tensor], Any] | None = None) -> OutsideMemory:
    """Have stacks offload there, also on a processor."""
    outside = OutsideMemory()
    monkeypatch.setattr(
        checkpointing, "offload", partial(checkpointing.offload, away=away or outside.away, back=outside.back)
    )
    return outside
