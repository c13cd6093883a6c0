"""The energy of whole processor packages, by the counters (RAPL) that Linux shows in /sys/class/powercap."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headtohead.training.energy.energy_counter import EnergyCounter, UnmeasuredError

POWERCAP = Path("/sys/class/powercap")
MOST_WATTS = 1000.0
"""No package draws more: a counter that could have gone round since its last reading by this power is not believed."""
_MICRO = 1e6


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
