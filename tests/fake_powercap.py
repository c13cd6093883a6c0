"""A tree as Linux shows RAPL's counters, which tests advance."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PERIOD = 262_143_328_850
"""The microjoules after which an Intel server's counter starts again."""


class FakePowercap:
    """Packages with a core zone below each, the platform that holds them all, and a second view of the first."""

    def __init__(self, root: Path, packages: int = 2, start: int = 1_000_000) -> None:
        self.root = root
        names = {f"intel-rapl:{number}": f"package-{number}" for number in range(packages)}
        names |= {f"intel-rapl:{number}:0": "core" for number in range(packages)}
        names |= {f"intel-rapl:{packages}": "psys", "intel-rapl-mmio:0": "package-0"}
        for zone, name in names.items():
            (root / zone).mkdir(parents=True)
            (root / zone / "name").write_text(f"{name}\n")
            (root / zone / "max_energy_range_uj").write_text(f"{PERIOD}\n")
            (root / zone / "energy_uj").write_text(f"{start}\n")
            (root / zone / "energy_uj").chmod(0o444)

    def draw(self, joules: float, zone: str = "intel-rapl:0") -> None:
        """Advance a counter, which starts again where it ends."""
        file = self.root / zone / "energy_uj"
        file.chmod(0o644)
        file.write_text(f"{(int(file.read_text()) + round(1e6 * joules)) % PERIOD}\n")
        file.chmod(0o444)

    def close(self, zone: str) -> None:
        """Give a counter the mode that Linux gives it: root alone reads it."""
        (self.root / zone / "energy_uj").chmod(0o400)


def without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make files refuse root what their mode refuses others."""
    if os.geteuid() != 0:
        return
    opened = Path.read_text

    def read_text(path: Path, *arguments: object, **options: object) -> str:
        if not path.stat().st_mode & 0o004:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "read_text", read_text)
