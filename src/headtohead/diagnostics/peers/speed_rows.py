"""Lines of docs/speed.md, and the table of `h2h bench --peers`: what was measured, what was aimed at, and on which
machine; one JSON file a benchmark."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from rich.table import Table

from headtohead.diagnostics.peers.alternation import Quartiles
from headtohead.files.atomic_write import replace_text
from headtohead.files.safe_read import read_json

ROWS_FOLDER = Path("outputs/bench")
SUFFIX = ".rows.json"


@dataclass(frozen=True)
class SpeedRow:
    """One line: a figure in some unit, with its target."""

    work: str
    measured: Quartiles
    target: float
    unit: str = "x"
    """`x` for a ratio to the peer, else `s`, `MB` or `%`."""
    better: Literal["higher", "lower"] = "higher"
    details: str = ""
    """The figures behind a ratio: ours 12.1 ms, nanoGPT's model 15.0 ms."""
    missing: str = ""
    """The kernels that the time goes into where the target is missed."""
    machine: str = ""

    @property
    def is_met(self) -> bool:
        """Return whether the median reaches the target."""
        median = self.measured.median
        return median >= self.target if self.better == "higher" else median <= self.target


def rows_of(path: Path) -> list[SpeedRow]:
    """Return the rows that a benchmark has written; none where it has not run."""
    if not path.exists():
        return []
    stored: list[dict[str, Any]] = read_json(path)
    return [SpeedRow(**{**row, "measured": Quartiles(**row["measured"])}) for row in stored]


def save_rows(name: str, rows: Iterable[SpeedRow], folder: Path = ROWS_FOLDER) -> Path:
    """Write the rows of a benchmark, in place of its earlier ones for the same work."""
    path = folder / f"{name}{SUFFIX}"
    by_work = {row.work: row for row in (*rows_of(path), *rows)}
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(path, json.dumps([asdict(row) for row in by_work.values()], indent=1))
    return path


def peer_table(rows: Iterable[SpeedRow]) -> Table:
    """Return one line for each comparison: the ratio with its quartiles, the target, and the figures behind it."""
    table = Table("work", "ratio", "quartiles", "target", "reached", "ours; the peer")
    for row in rows:
        sign = ">=" if row.better == "higher" else "<="
        spread = f"{row.measured.lower:.2f} to {row.measured.upper:.2f}"
        reached = "yes" if row.is_met else "no"
        table.add_row(row.work, f"{row.measured.median:.2f}", spread, f"{sign} {row.target:.2f}", reached, row.details)
    return table
