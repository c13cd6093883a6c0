"""Describe the machine's devices for the record."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from headtohead.components.processor import cpu_name, within_thread_limit
from headtohead.training.parallel.device_sheets import Format

_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""Files of NVIDIA's driver, of AMD's, and of Windows' within its Linux."""


def number_format(precision: str) -> Format:
    """Return the format of the matrix products under a precision such as bf16-mixed."""
    kind = precision.partition("-")[0]
    if kind == "32":
        return "fp32" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    formats: dict[str, Format] = {"64": "fp64", "bf16": "bf16", "16": "fp16"}
    return formats[kind]


def device_for(accelerator: str) -> torch.device:
    """Return the device on which a run with this trainer.accelerator computes."""
    on_gpu = accelerator != "cpu" and torch.cuda.is_available()
    return torch.device("cuda", 0) if on_gpu else torch.device("cpu")


def may_have_gpu() -> bool:
    """Return whether a GPU may be here. On Linux its driver's files say it: a process that has asked CUDA itself cannot
    fork one that computes on a GPU."""
    if sys.platform != "linux":
        return torch.cuda.is_available()
    is_built = torch.version.cuda is not None or torch.version.hip is not None
    return is_built and any(Path(file).exists() for file in _DRIVERS)


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name()


def describe(device: torch.device, *, count: int) -> dict[str, Any]:
    """Describe for the record the devices on which the run was trained."""
    described: dict[str, Any] = {"type": device.type, "name": device_name(device), "count": count}
    if device.type == "cuda":
        described["memory_gib"] = round(torch.cuda.get_device_properties(device).total_memory / 2**30, 1)
    else:
        described["threads"] = torch.get_num_threads()
        described["cores"] = os.cpu_count()
    return described


@contextmanager
def threads(number: int | None) -> Iterator[None]:
    """So many threads of the processor inside, as before outside; None changes nothing. There are never more than
    OpenMP may start."""
    before = torch.get_num_threads()
    torch.set_num_threads(within_thread_limit(before if number is None else number))
    try:
        yield
    finally:
        torch.set_num_threads(before)
