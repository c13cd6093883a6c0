"""Counters of energy and the amounts that they measure; where none can be read there is no amount.

Processors by RAPL, as Linux shows it in /sys/class/powercap; NVIDIA boards by NVML, the library of their driver.
"""

from __future__ import annotations

import ctypes
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

POWERCAP = Path("/sys/class/powercap")
MOST_WATTS = 1000.0
"""No package draws more: a counter that could have gone round since its last reading by this power is not believed."""
_MICRO = 1e6
_LIBRARY = "libnvidia-ml.so.1"
_MILLI = 1e3


class UnmeasuredError(Exception):
    """Energy that cannot be measured here; the message is the reason."""


@dataclass(frozen=True)
class Energy:
    """An amount of energy, and what measured it."""

    joules: float | None = 0.0
    """The amount, or None where a part of it was not measured."""
    source: str = ""
    """The counter; empty where nothing was drawn yet."""

    def __add__(self, other: Energy) -> Energy:
        """Amounts of different counters are of different things, and have no sum."""
        if not other.source or not self.source:
            return self if self.source else other
        if self.joules is None or other.joules is None:
            return self if self.joules is None else other
        if self.source != other.source:
            return Energy(None, not_measured(f"one start was measured by {self.source}, another by {other.source}"))
        return Energy(self.joules + other.joules, self.source)


NOTHING = Energy()


def not_measured(reason: str) -> str:
    """Return the text that a record has in place of a counter's name."""
    return f"not measured: {reason}"


class EnergyCounter(ABC):
    """A counter that goes on whether or not anybody reads it."""

    source: str
    """Its name in a record; amounts of one source can be compared."""

    @abstractmethod
    def read(self) -> float | None:
        """Return the joules since the last reading; None where they are not known."""

    def drawn(self) -> Energy:
        """Return the energy since the last reading; an unknown one has the reason in place of its source."""
        if (joules := self.read()) is not None:
            return Energy(joules, self.source)
        return Energy(None, self._why_unknown())

    def _why_unknown(self) -> str:
        return not_measured(f"{self.source}: a reading failed, or came so late that the counter may have gone round")


class NoCounter(EnergyCounter):
    """A place without a readable counter."""

    def __init__(self, reason: str) -> None:
        self.source = not_measured(reason)

    def read(self) -> float | None:
        return None

    def _why_unknown(self) -> str:
        return self.source


@dataclass
class _Package:
    """One package's counter, in microjoules."""

    file: Path
    period: int
    """The value from which it starts again at 0."""
    value: int

    def microjoules(self) -> int:
        """Return what was drawn since the last call."""
        before, self.value = self.value, _number_in(self.file)
        return self.value - before + (self.period if self.value < before else 0)


class RaplPackages(EnergyCounter):
    """All packages of the machine, with whatever else runs on them; the memory modules are not in it."""

    def __init__(self, root: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Raise UnmeasuredError unless the counter of every package can be read."""
        self._packages, self._clock = _packages_in(root or POWERCAP), clock
        self._read_at = clock()
        count = len(self._packages)
        self.source = f"RAPL, {count} processor package{'' if count == 1 else 's'}"

    def read(self) -> float | None:
        before, self._read_at = self._read_at, self._clock()
        most = MOST_WATTS * (self._read_at - before) * _MICRO
        try:
            drawn = [package.microjoules() for package in self._packages]
        except (OSError, ValueError):
            self._read_at = float("-inf")  # the next reading does not know since when it counts
            return None
        return None if most >= min(package.period for package in self._packages) else sum(drawn) / _MICRO


def _packages_in(root: Path) -> list[_Package]:
    """Return the packages; their parts (cores, graphics) and a whole platform would count the same energy twice."""
    zones = sorted(zone for zone in root.glob("intel-rapl:*") if zone.name.count(":") == 1)
    try:
        packages = [zone for zone in zones if (zone / "name").read_text().startswith("package")]
        read = [
            _Package(zone / "energy_uj", _number_in(zone / "max_energy_range_uj"), _number_in(zone / "energy_uj"))
            for zone in packages
        ]
    except PermissionError as error:
        raise UnmeasuredError(
            f"{error.filename} can be read by root alone: sudo chmod a+r {root}/intel-rapl:*/energy_uj allows all users"
        ) from None
    except (OSError, ValueError) as error:
        raise UnmeasuredError(f"a counter below {root} cannot be read: {error}") from None
    if not read:
        raise UnmeasuredError(f"{root} has no counter of a processor package, as in most virtual machines")
    return read


def _number_in(file: Path) -> int:
    return int(file.read_text())


class NvmlBoards(EnergyCounter):
    """The boards of these UUIDs, memory and whatever else runs on them included; the rest of the machine is not."""

    def __init__(self, uuids: Sequence[str], library: ctypes.CDLL | None = None) -> None:
        """Raise UnmeasuredError unless the counter of every board can be read; `library` is NVML, or acts like it."""
        self._library = _loaded() if library is None else library
        _check(self._library, self._library.nvmlInit_v2(), "the driver")
        self._boards = [(self._handle(uuid), uuid) for uuid in uuids]
        self._values: list[int] | None = self._totals()
        self.source = f"NVML, {len(uuids)} GPU board{'' if len(uuids) == 1 else 's'}"

    def read(self) -> float | None:
        before, self._values = self._values, None  # after one that fails, the next does not know since when it counts
        try:
            self._values = self._totals()
        except UnmeasuredError:
            return None
        if before is None:
            return None
        drawn = [now - then for now, then in zip(self._values, before, strict=True)]
        return None if min(drawn) < 0 else sum(drawn) / _MILLI  # the driver was reloaded

    def _handle(self, uuid: str) -> ctypes.c_void_p:
        handle = ctypes.c_void_p()
        name = uuid if uuid.startswith("GPU-") else f"GPU-{uuid}"
        code = self._library.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle))
        _check(self._library, code, f"the GPU {uuid}")
        return handle

    def _totals(self) -> list[int]:
        """Return the millijoules of each board since the driver was loaded."""
        totals: list[int] = []
        for handle, uuid in self._boards:
            total = ctypes.c_ulonglong()
            code = self._library.nvmlDeviceGetTotalEnergyConsumption(handle, ctypes.byref(total))
            _check(self._library, code, f"the energy of the GPU {uuid}")
            totals.append(total.value)
        return totals


def _loaded() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise UnmeasuredError(f"the driver's library {_LIBRARY} cannot be loaded: {error}") from None
    library.nvmlErrorString.restype = ctypes.c_char_p
    return library


def _check(library: ctypes.CDLL, code: int, what: str) -> None:
    """NVML's functions return 0 where they succeed, and the number of an error otherwise."""
    if code != 0:
        raise UnmeasuredError(f"NVML does not report {what}: {library.nvmlErrorString(code).decode()}")


def counter_of(device: torch.device, *, count: int = 1, num_nodes: int = 1) -> EnergyCounter:
    """Return what counts the energy of `count` devices of this machine, all of them read by one process; where nothing
    does, its `source` says why."""
    if num_nodes > 1:
        return NoCounter(f"a process reads the counters of its own machine, and this run has {num_nodes}")
    try:
        if device.type != "cuda":
            return RaplPackages()
        return NvmlBoards([str(torch.cuda.get_device_properties(index).uuid) for index in range(count)])
    except UnmeasuredError as unmeasured:
        return NoCounter(str(unmeasured))
