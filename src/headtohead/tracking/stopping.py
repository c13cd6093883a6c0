"""A run that is ended before its last step, because others do better: a file in its folder says so, and why."""

from __future__ import annotations

from pathlib import Path

from headtohead.files.writing import replace_text

FILE = "ended_early.txt"


def end_early(folder: Path, reason: str) -> None:
    """From now on nobody goes on with it; who trains it is still to be told."""
    replace_text(folder / FILE, f"{reason}\n")


def why_ended_early(folder: Path) -> str | None:
    file = folder / FILE
    return file.read_text(encoding="utf-8").strip() if file.is_file() else None
