"""The processor of this machine."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path


@cache
def cpu_name() -> str:
    """Return the maker's name of the processor, such as "AMD EPYC 9554 64-Core Processor"."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


@cache
def reads_one_row_slowly() -> bool:
    """Return whether a matrix times a single vector takes twice as long as block by block: MKL's product on AMD's
    processors, where on Intel's the blocks take twice as long (measured by benchmarks/generation.py)."""
    return cpu_name().startswith("AMD")
