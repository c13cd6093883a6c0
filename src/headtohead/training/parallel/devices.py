"""Describe the machine's devices for the record, with the peak rate for model FLOPs utilisation.

Peaks are dense (without structured sparsity), from the makers' data sheets:
NVIDIA V100 https://images.nvidia.com/content/technologies/volta/pdf/volta-v100-datasheet-update-us-1165301-r5.pdf,
T4 https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/tesla-t4/t4-tensor-core-datasheet-951643.pdf,
A100 https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf,
A10 https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a10/pdf/a10-datasheet.pdf,
A40 https://images.nvidia.com/content/Solutions/data-center/a40/nvidia-a40-datasheet.pdf,
L4, L40, L40S and RTX 4090 https://images.nvidia.com/aem-dam/Solutions/Data-Center/l4/nvidia-ada-gpu-architecture-whitepaper-v2.1.pdf,
H100 https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet,
H200 https://resources.nvidia.com/en-us-data-center-overview-mc/en-us-data-center-overview/hpc-datasheet-sc23-h200,
MI250X https://www.amd.com/en/products/accelerators/instinct/mi200/mi250x.html (one of its two dies),
MI300X https://www.amd.com/en/products/accelerators/instinct/mi300/mi300x.html.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch

from headtohead.components.processor import cpu_name

Format = Literal["fp64", "fp32", "tf32", "bf16", "fp16"]

_TERA = 1e12
PEAKS: tuple[tuple[tuple[str, ...], dict[Format, float]], ...] = (
    (("h200 nvl",), {"fp64": 30, "fp32": 60, "tf32": 417.5, "bf16": 835.5, "fp16": 835.5}),
    (("h200",), {"fp64": 34, "fp32": 67, "tf32": 494.5, "bf16": 989.5, "fp16": 989.5}),
    (("h100 nvl",), {"fp64": 30, "fp32": 60, "tf32": 417.5, "bf16": 835.5, "fp16": 835.5}),
    (("h100 pcie",), {"fp64": 26, "fp32": 51, "tf32": 378, "bf16": 756, "fp16": 756}),
    (("h100 80gb hbm3",), {"fp64": 34, "fp32": 67, "tf32": 494.5, "bf16": 989.5, "fp16": 989.5}),
    (
        ("a100 sxm4 40gb", "a100 sxm4 80gb", "a100 pcie 40gb", "a100 80gb pcie"),
        {"fp64": 9.7, "fp32": 19.5, "tf32": 156, "bf16": 312, "fp16": 312},
    ),
    (("a40",), {"fp32": 37.4, "tf32": 74.8, "bf16": 149.7, "fp16": 149.7}),
    (("a10",), {"fp32": 31.2, "tf32": 62.5, "bf16": 125, "fp16": 125}),
    (("l40s",), {"fp32": 91.6, "tf32": 183, "bf16": 362, "fp16": 362}),
    (("l40",), {"fp32": 90.5, "tf32": 90.5, "bf16": 181, "fp16": 181}),
    (("l4",), {"fp32": 30.3, "tf32": 60, "bf16": 121, "fp16": 121}),
    (("geforce rtx 4090",), {"fp32": 82.6, "tf32": 82.6, "bf16": 165.2, "fp16": 165.2}),
    (("tesla v100 pcie 16gb", "tesla v100 pcie 32gb"), {"fp64": 7, "fp32": 14, "fp16": 112}),
    (("tesla v100 sxm2 16gb", "tesla v100 sxm2 32gb"), {"fp64": 7.8, "fp32": 15.7, "fp16": 125}),
    (("tesla t4",), {"fp32": 8.1, "fp16": 65}),
    (("amd instinct mi250x",), {"fp64": 23.95, "fp32": 23.95, "bf16": 191.5, "fp16": 191.5}),
    (("amd instinct mi300x",), {"fp64": 81.7, "fp32": 163.4, "tf32": 653.7, "bf16": 1307.4, "fp16": 1307.4}),
)
"""Names as drivers report them, in lower case, without the maker NVIDIA and with spaces for hyphens, and TFLOP/s by
number format. A whole name must be in the table: one more word means another chip (4090 D, Laptop GPU) or a part of one
(MIG 1g.10gb)."""


def peak_flops(device_name: str, number_format: Format) -> float | None:
    """Return the FLOP/s of one device; None for a name that the table does not hold, such as every CPU's."""
    name = " ".join(device_name.lower().replace("-", " ").split()).removeprefix("nvidia ")
    peak = next((peaks.get(number_format) for names, peaks in PEAKS if name in names), None)
    return None if peak is None else peak * _TERA


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
