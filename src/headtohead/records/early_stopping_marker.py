"""A run that is ended before its last step, because others do better: a file in its folder says so, and why."""

from __future__ import annotations

from pathlib import Path

from headtohead.files.atomic_write import replace_text

FILE = "ended_early.txt"


def end_early(folder: Path, reason: str) -> None:
    """Mark the run so that nobody resumes it; the process that trains it still has to be stopped."""
    replace_text(folder / FILE, f"{reason}\n")


def why_ended_early(folder: Path) -> str | None:
    file = folder / FILE
    return file.read_text(encoding="utf-8", errors="replace").strip() if file.is_file() else None
