"""Write docs/speed.md from the rows that benchmarks have left in outputs/bench.

    python benchmarks/speed_page.py [--folder outputs/bench] [--out docs/speed.md]

A benchmark leaves its rows by `save_rows("NAME", [SpeedRow(...), ...])` (`diagnostics/peers/peer_measurement.py`).
"""

from __future__ import annotations

import argparse
from pathlib import Path

from headtohead.diagnostics.peers.peer_measurement import ROWS_FOLDER, SUFFIX, SpeedRow, rows_of

HEAD = """\
# Speed

Written by `make bench` in processor time. Ratios are measured in alternation (A B A B) in one process: the median of
those of neighbouring runs, and their quartiles. Commands are whole processes, and their figures medians of three. A
ratio is the peer's time over ours, so that above 1 ours is faster; of memory and of plain figures less is better.
`h2h bench --peers` measures the same ratios on your machine.

A target is a ratio that we aim at, set on another processor (AVX-512, with products of bf16 4.7 times as fast as those
of float32). Where one is not reached, the kernels that the time goes into follow below.
"""
NOTES = Path(__file__).with_name("speed_notes.md")


def figure(value: float, unit: str) -> str:
    return f"{value:.2f}" if unit == "x" else f"{value:,.3g} {unit}" if value < 999.5 else f"{value:,.0f} {unit}"


def line(row: SpeedRow) -> str:
    sign = "≥" if row.better == "higher" else "≤"
    spread = f"{figure(row.measured.lower, row.unit)} to {figure(row.measured.upper, row.unit)}"
    cells = (
        row.work,
        f"{sign} {figure(row.target, row.unit)}",
        f"**{figure(row.measured.median, row.unit)}** ({spread})",
        "yes" if row.is_met else "no",
        row.details,
    )
    return "| " + " | ".join(cells) + " |"


def page(rows: list[SpeedRow]) -> str:
    parts = [HEAD]
    for name in dict.fromkeys(row.machine for row in rows):
        table = ["| work | target | ours, quartiles | reached | figures |", "| --- | --- | --- | --- | --- |"]
        table += [line(row) for row in rows if row.machine == name]
        parts += [f"Machine: {name or 'unknown'}\n", "\n".join(table) + "\n"]
    missed = [f"- **{row.work}**: {row.missing}" for row in rows if not row.is_met and row.missing]
    if missed:
        parts.append("## Where the time of the others goes\n\n" + "\n".join(missed) + "\n")
    if NOTES.exists():
        parts.append(NOTES.read_text(encoding="utf-8"))
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROWS_FOLDER)
    parser.add_argument("--out", type=Path, default=Path("docs/speed.md"))
    chosen = parser.parse_args()
    files = sorted(chosen.folder.glob(f"*{SUFFIX}"))
    rows = [row for path in files for row in rows_of(path)]
    chosen.out.write_text(page(rows), encoding="utf-8")
    print(f"{len(rows)} rows, {sum(row.is_met for row in rows)} of them with their target reached: {chosen.out}")


if __name__ == "__main__":
    main()
