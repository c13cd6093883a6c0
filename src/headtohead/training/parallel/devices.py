"""Describe the machine's devices for the record, with the peak rate for model FLOPs utilisation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from headtohead.components.processor import cpu_name
from headtohead.training.parallel.device_sheets import Format, sheet_of


def peak_flops(device_name: str, number_format: Format) -> float | None:
    """Return the FLOP/s of one device; None for a name that no data sheet holds, such as every CPU's."""
    sheet = sheet_of(device_name)
    return None if sheet is None else sheet.peaks.get(number_format)


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
    """So many threads of the processor inside, as before outside; None changes nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if number is None else number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
