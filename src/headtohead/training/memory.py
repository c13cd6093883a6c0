"""The most memory that a run held at once: the allocator's count on a GPU, resident memory on a CPU."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import psutil
import torch

_RESET_PEAK = "5"
"""Written to clear_refs, this resets the kernel's high-water mark (proc(5))."""


class PeakMemory:
    """Bytes, from its making on. Where the kernel keeps no peak for us, the largest of the sizes seen."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._largest = 0
        self._kernel_knows = False
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        else:
            with contextlib.suppress(OSError):
                Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
                self._kernel_knows = True

    def read(self) -> int:
        if self._device.type == "cuda":
            return torch.cuda.max_memory_allocated(self._device)
        seen = _high_water_mark() if self._kernel_knows else psutil.Process(os.getpid()).memory_info().rss
        self._largest = max(self._largest, seen)
        return self._largest


def _high_water_mark() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return psutil.Process(os.getpid()).memory_info().rss
