"""Runs that came to no result: diverged, failed, out of memory, interrupted, not made."""

from __future__ import annotations

from pathlib import PurePath

from headtohead.comparing.findings import Findings, Found
from headtohead.comparing.report.parts import ArmName, Cell, Code, Column, Section, Table
from headtohead.comparing.report.words import UNKNOWN


def section(findings: Findings) -> Section | None:
    troubled = [run for run in findings.runs if run.status != "finished"]
    if not troubled:
        return None
    columns = [Column("arm"), Column("seed", True), Column("what became of it"), Column("reason", wide=True)]
    columns += [Column("step", True), Column("folder")]
    caption = (
        "Runs without a result. One that diverged counts, and ranks last; all others count as not made, since what "
        "ended them says nothing about the arm."
    )
    return Section("Failed and missing runs", "troubles", [Table(columns, [_row(run) for run in troubled], caption)])


def _row(run: Found) -> list[Cell]:
    record = run.record
    step = UNKNOWN if record is None else str(record.progress.step)
    folder: Cell = UNKNOWN if record is None or record.path is None else Code(_short(record.path))
    return [ArmName(run.arm), str(run.seed), run.status.replace("_", " "), run.reason or UNKNOWN, step, folder]


def _short(path: PurePath) -> str:
    """Without the folders above the study or group, which are the machine's own."""
    return str(PurePath(*path.parts[-3:]))
