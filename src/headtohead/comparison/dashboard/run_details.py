"""Collect the details in the folder of one run: notes, pictures of attention, tables of samples."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

from headtohead.comparison.dashboard.folders import files_below, folders_in
from headtohead.records.record import RunRecord

_MOST_ROWS = 200
_LONGEST = 4000
"""Letters of one cell."""


def details(root: Path, folder: Path, record: RunRecord | None) -> dict[str, Any]:
    """All there is to choose from, and what a record says besides numbers."""
    data: dict[str, Any] = {
        "folder": str(folder),
        "pictures": _by_step(pictures(root, folder)),
        "tables": _by_step(tables(root, folder)),
    }
    if record is not None:
        data |= {
            "cannot": record.cannot,
            "wandb": record.wandb.url,
            "timing": {"started": record.timing.started, "finished": record.timing.finished},
            "starts": record.timing.starts,
            "device": record.environment.device.get("name"),
            "commit": record.environment.git_commit,
        }
    return data


def pictures(root: Path, folder: Path) -> dict[tuple[str, str], Path]:
    """Find attention/STEP/NAME.png, and the matrices beside the tables."""
    return _files(root, folder / "attention", ".png") | _files(root, folder / "tables", ".png")


def tables(root: Path, folder: Path) -> dict[tuple[str, str], Path]:
    """Find tables/STEP/NAME.csv."""
    return _files(root, folder / "tables", ".csv")


def read_table(path: Path) -> dict[str, Any]:
    """Return its first rows; long texts cut."""
    csv.field_size_limit(sys.maxsize)
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        rows = [
            [cell[:_LONGEST] for cell in row] for _, row in zip(range(_MOST_ROWS + 2), csv.reader(file), strict=False)
        ]
    columns, *others = rows or [[]]
    return {"columns": columns, "rows": others[:_MOST_ROWS], "more": len(others) > _MOST_ROWS}


def _files(root: Path, above: Path, suffix: str) -> dict[tuple[str, str], Path]:
    return {
        (step.name, file.stem): file for step in folders_in(root, above) for file in files_below(root, step, (suffix,))
    }


def _by_step(files: dict[tuple[str, str], Path]) -> dict[str, list[str]]:
    by_step: dict[str, list[str]] = {}
    for step, name in files:
        by_step.setdefault(step, []).append(name)
    return by_step
