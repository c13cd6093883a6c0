"""A run that was ended before its last step, because others do better: a file in its folder says so, and why."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headtohead.tracking.files import replace_text
from headtohead.tracking.store import RECORD, RunFolder

FILE = "ended_early.txt"


def end_early(folder: Path, reason: str) -> None:
    """From now on nobody goes on with it; who trains it is still to be told."""
    replace_text(folder / FILE, f"{reason}\n")


def why_ended_early(folder: Path) -> str | None:
    file = folder / FILE
    return file.read_text(encoding="utf-8").strip() if file.is_file() else None


def explain(folder: Path) -> None:
    """The record of an interrupted run says what interrupted it."""
    reason = why_ended_early(folder)
    if reason is None or not (folder / RECORD).is_file():
        return
    run = RunFolder.open(folder)
    record = run.read_record_as_written()
    if record.status == "interrupted" and record.reason != reason:
        run.write_record(replace(record, reason=reason))
