"""The table of `h2h bench --peers`."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from headtohead.diagnostics.peers.speed_rows import SpeedRow


def peer_table(rows: Iterable[SpeedRow]) -> Table:
    """Return one line for each comparison: the ratio with its quartiles, the target, and the figures behind it."""
    table = Table("work", "ratio", "quartiles", "target", "reached", "ours; the peer")
    for row in rows:
        sign = ">=" if row.better == "higher" else "<="
        spread = f"{row.measured.lower:.2f} to {row.measured.upper:.2f}"
        reached = "yes" if row.is_met else "no"
        table.add_row(row.work, f"{row.measured.median:.2f}", spread, f"{sign} {row.target:.2f}", reached, row.details)
    return table
