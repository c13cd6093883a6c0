"""The losses since the last logged step, kept on the device: nobody waits for them until they are read."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor


class LossWindow:
    """Up to `size` unread losses; reading moves them to the host."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._unread: Tensor | None = None
        self._count = 0
        self.losses: list[float] = []
        """Those read so far, oldest first."""

    def add(self, loss: Tensor) -> None:
        if self._unread is None or self._unread.device != loss.device:
            self._unread = torch.zeros(self._size, device=loss.device, dtype=torch.float64)
        self._unread[self._count] = loss
        self._count += 1

    def read(self, sum_over_devices: Callable[[Tensor], Tensor]) -> list[float]:
        """All losses of the window, each step's shares of all devices added up."""
        if self._unread is not None and self._count:
            self.losses += sum_over_devices(self._unread[: self._count]).tolist()
            self._count = 0
        return self.losses

    def clear(self) -> None:
        self.losses = []

    def first_bad(self) -> int | None:
        """How many steps ago, counted from the last one read, a loss was first not finite."""
        for place, loss in enumerate(self.losses):
            if not math.isfinite(loss):
                return len(self.losses) - 1 - place
        return None
