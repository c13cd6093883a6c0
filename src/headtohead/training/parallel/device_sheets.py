"""The data sheets of devices by their makers: memory, rates and links. Nothing here imports torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from headtohead.files.safe_read import read_yaml

Format = Literal["fp64", "fp32", "tf32", "bf16", "fp16"]
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
