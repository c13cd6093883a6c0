"""Describe the machine's devices for the record, and the data sheets of their makers: memory, rates and links."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch

from headtohead.components.processor import cpu_name
from headtohead.files.safe_read import read_yaml

Format = Literal["fp64", "fp32", "tf32", "bf16", "fp16"]
_DRIVERS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""Files of NVIDIA's driver, of AMD's, and of Windows' within its Linux."""
_FILE = Path(__file__).with_name("device_sheets.yaml")


@dataclass(frozen=True)
class DeviceSheet:
    """One device, in bytes and operations per second."""

    name: str
    """The name by which a plan calls it."""
    title: str
    drivers: tuple[str, ...]
    """Names as drivers report them, in lower case, without the maker NVIDIA and with spaces for hyphens. A whole name
    must be there: one more word means another chip (4090 D, Laptop GPU) or a part of one (MIG 1g.10gb)."""
    memory: float
    bandwidth: float
    peaks: Mapping[Format, float]
    """Dense matrix products by number format."""
    link: float
    """Bytes a second, one way, between devices of one machine."""
    network: float
    """Bytes a second, one way, that a device has between machines."""
    host: float
    """Bytes a second, one way, between a device and the processor's memory."""
    per_node: int
    source: str


@cache
def device_sheets() -> Mapping[str, DeviceSheet]:
    """Return all known devices by name."""
    return {name: _sheet(name, node) for name, node in read_yaml(_FILE).items()}


def _sheet(name: str, node: Mapping[str, object]) -> DeviceSheet:
    numbers: dict[str, float] = {key: value for key, value in node.items() if isinstance(value, int | float)}
    peaks, drivers = node["peaks"], node["drivers"]
    assert isinstance(peaks, dict) and isinstance(drivers, list)
    return DeviceSheet(
        name=name,
        title=str(node["title"]),
        drivers=tuple(drivers),
        memory=numbers["memory_gib"] * 2**30,
        bandwidth=numbers["bandwidth_gb_s"] * 1e9,
        peaks={kind: value * 1e12 for kind, value in peaks.items()},
        link=numbers["link_gb_s"] * 1e9,
        network=numbers["network_gb_s"] * 1e9,
        host=numbers["host_gb_s"] * 1e9,
        per_node=int(numbers["per_node"]),
        source=str(node["source"]),
    )


def sheet_of(device_name: str) -> DeviceSheet | None:
    """Return the sheet of a device by the name that its driver reports; None for one that is not known."""
    name = " ".join(device_name.lower().replace("-", " ").split()).removeprefix("nvidia ")
    return next((sheet for sheet in device_sheets().values() if name in sheet.drivers), None)


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
    """So many threads of the processor inside, as before outside; None changes nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(before if number is None else number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
